"""``python -m instances.convert``: from any format that is read to any that is written."""
