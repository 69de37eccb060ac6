"""Instances: a catalogue of them, what makes and converts them, and the formats they come in."""

# First of all: a command line of ours answers Ctrl-C from here on.
from planners.command_line import starting as starting
from planners.command_line.version import __version__ as __version__
