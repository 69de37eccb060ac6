"""Integer programs."""
