"""``python -m planners.compare``: every planner on every instance, judged, in one table."""
