"""Allocation traces: the requests of a run to its allocator, and the problems of its parts."""
