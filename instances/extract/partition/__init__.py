"""PyTorch's partitioner on the steps that are traced here, as planners under a limit."""
