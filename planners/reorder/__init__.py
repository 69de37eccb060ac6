"""Search for an order of a graph's nodes with fewer live bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planners.late_exports import late_exports

if TYPE_CHECKING:
    from planners.reorder.order_planning import reorder
    from planners.reorder.reordering import Reordering
else:
    __getattr__ = late_exports(__name__, {"Reordering": "reordering", "reorder": "order_planning"})


__all__ = ["Reordering", "reorder"]
