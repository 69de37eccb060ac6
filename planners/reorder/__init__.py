"""Search for an order of a graph's nodes with fewer live bytes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planners.reorder.order_planning import reorder
    from planners.reorder.reordering import Reordering
else:

    def __getattr__(name: str) -> Any:
        """Import an exported name at its first use, because the import is slow."""
        if name not in __all__:
            raise AttributeError(f"module 'planners.reorder' has no attribute {name!r}")
        return getattr(import_module("planners.reorder.order_planning"), name)


__all__ = ["Reordering", "reorder"]
