"""Training steps within limits of memory: predicted and measured in one process."""
