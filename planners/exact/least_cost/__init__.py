"""The least cost of reuse within a capacity: bounds, and a search that meets them."""
