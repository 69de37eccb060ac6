"""Greedy planners: an order of the blocks, a fit, and one engine that places them."""
