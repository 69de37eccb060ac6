"""Allocation traces: what a run asked of its allocator, and the problems within it."""
