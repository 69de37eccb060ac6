"""What is said of a training without a GPU, held against runs on one."""
