"""Planners of somebody else: run so that they can harm nothing, and answers taken in as data."""
