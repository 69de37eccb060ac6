"""Instances: a catalogue of them, what makes and converts them, and the formats they come in."""

from gapless_siblings import gives_way

if not gives_way(__name__):
    from planners.version import __version__ as __version__
