"""Stands for a GPU while a program runs on fake tensors: its kernels, casts, streams, answers."""
