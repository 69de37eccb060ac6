"""Gapless' own branch and bound."""
