"""The model: a problem, its plans and results, and what bounds them."""
