"""Spatio-temporal planning: groups by computation phase, layers by size, and orders from both."""
