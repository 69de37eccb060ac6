"""Planned memory: PyTorch's allocations, served at planned places."""
