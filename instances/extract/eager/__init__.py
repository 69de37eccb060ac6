"""Traces of eager training: requests to the GPU's allocator, recorded without a GPU."""
