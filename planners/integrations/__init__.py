"""Planners where other people's compilers plan memory."""
