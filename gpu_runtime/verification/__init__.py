"""Verification: a plan runs on real memory, and every word of it is checked."""
