"""Measurements that anyone can repeat, and pictures."""

# First of all: a command line of ours answers Ctrl-C from here on.
from planners.command_line import starting as starting
from planners.command_line.version import __version__ as __version__
