"""Answers of planners: asked for here or in a process of their own, and checked for form."""
