"""Processes: planners apart from this one, what they may leave changed, and their answers."""
