"""Spatio-temporal planning: groups by computation phase, layers by size, and the order of both."""
