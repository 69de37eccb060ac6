"""PyTorch's own allocator of CUDA memory, decorated with ours."""
