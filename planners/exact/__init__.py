"""Exact planners: they search until they have a proof."""
