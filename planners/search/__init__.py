"""Searches that improve greedy plans until the budget is spent."""
