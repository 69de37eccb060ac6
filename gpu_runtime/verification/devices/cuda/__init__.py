"""CUDA without a toolkit: NVIDIA's cuda-bindings reach the driver and the run-time compiler."""
