"""Traces of eager training: what a loop asks of the GPU's allocator, recorded without a GPU."""
