"""Sees each allocation of a program that runs on fake tensors, and makes a trace of them."""
