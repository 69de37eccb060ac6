"""Search: from greedy plans to better ones, as long as the budget lasts."""
