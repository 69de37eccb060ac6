"""Safety: which pairs of tensors may not share bytes."""
