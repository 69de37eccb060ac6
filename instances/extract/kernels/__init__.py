"""From the operators of a step to a problem: kernels, storages, communication, streams."""
