"""Benchmarks: both sides of a comparison in one run, in CPU seconds on one core."""
