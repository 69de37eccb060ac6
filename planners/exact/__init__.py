"""Exact planners: they search until they have proved something."""
