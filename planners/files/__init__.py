"""Files of our own, the registry of formats, and the one careful writer."""
