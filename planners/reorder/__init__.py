"""Another order of a graph's nodes, in which fewer bytes have to be alive at once."""

from planners.reorder.reorder import reorder
from planners.reorder.reordering import Reordering

__all__ = ["Reordering", "reorder"]
