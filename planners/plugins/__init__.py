"""What comes from outside: entry points, and planners run so that they can harm nothing."""
