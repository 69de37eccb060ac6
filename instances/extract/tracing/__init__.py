"""From a PyTorch model to the kernels of a step and the storages they use."""
