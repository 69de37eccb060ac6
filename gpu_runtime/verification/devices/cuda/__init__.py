"""CUDA without a toolkit: the driver and the run-time compiler, opened when they are needed."""
