"""Online allocators beside each other: run on the same requests, shown in one table."""
