"""One run of a problem's schedule: its stamps, checks, waits and delays, and the arena."""
