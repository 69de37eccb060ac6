"""Training scripts as users write them, which check and time planned memory."""
