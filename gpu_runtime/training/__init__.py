"""A real training step under several allocators: the same bits, how much memory, how long."""
