"""Another order of a graph's nodes, in which fewer bytes have to be alive at once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planners.reorder.order_planning import reorder
    from planners.reorder.reordering import Reordering
else:

    def __getattr__(name: str) -> Any:
        """Import what the package exports, which takes long, when it is asked for."""
        if name not in __all__:
            raise AttributeError(f"module 'planners.reorder' has no attribute {name!r}")
        return getattr(import_module("planners.reorder.order_planning"), name)


__all__ = ["Reordering", "reorder"]
