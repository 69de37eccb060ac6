"""Bytes against waits: which events between streams let tensors share the most bytes."""
