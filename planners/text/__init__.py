"""Texts of tables, names and numbers."""
