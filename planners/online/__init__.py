"""Comparison of online allocators: they serve the same requests and share one table."""
