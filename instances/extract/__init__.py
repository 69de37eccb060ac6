"""Instances from PyTorch models: trace a training step, write it as a problem."""
