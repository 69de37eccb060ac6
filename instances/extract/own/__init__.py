"""Models of users: a function in a file of theirs makes a training step, which is traced."""
