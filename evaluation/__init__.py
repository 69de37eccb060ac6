"""Measurements that anyone can repeat, and pictures."""

from gapless_siblings import gives_way

if not gives_way(__name__):
    from planners.version import __version__ as __version__
