"""The catalogue: every instance with its provenance, its bounds and the best plan known of it."""
