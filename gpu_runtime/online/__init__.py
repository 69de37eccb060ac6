"""Online allocators by name, in a replay and beneath PyTorch."""
