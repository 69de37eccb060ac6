"""Branch and bound of our own."""
