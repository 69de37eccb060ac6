"""Benchmarks that anyone can run: both sides in one run, processor seconds, one core."""
