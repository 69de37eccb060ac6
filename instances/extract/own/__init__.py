"""A training in a file of a user: the function, the step that it returns, the trainer."""
