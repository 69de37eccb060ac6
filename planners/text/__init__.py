"""How tables, names and numbers are written."""
