"""The model: a problem, its plans and results, and lower bounds on its peak."""
