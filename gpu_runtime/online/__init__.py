"""Online allocators by name, in a replay and below PyTorch."""
