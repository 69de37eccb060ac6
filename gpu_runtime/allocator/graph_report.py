"""The report of captured graphs that share memory."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime._core import GraphFigures
from planners.text.byte_units import counted, exact_bytes


@dataclass(frozen=True)
class GraphReport:
    """Graphs that were declared to be exclusive.

    Parameters
    ----------
    pools
        Number of their pools that planned memory serves.
    shared_bytes, own_bytes
        Bytes that all graphs share, and those of pages with blocks that outlive their capture.
    live_bytes
        The most bytes of their blocks that lived at once; no arrangement holds less.
    pytorch_bytes
        Bytes that the better of PyTorch's two allocators would reserve for the same pools.
    passed_on
        The pools and requests that PyTorch's allocator serves, with the reason; empty without any.
    """

    pools: int
    shared_bytes: int
    own_bytes: int
    live_bytes: int
    pytorch_bytes: int
    passed_on: str

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values for people."""
        shared, own = exact_bytes(self.shared_bytes), exact_bytes(self.own_bytes)
        held = f"{shared} bytes shared by {counted(self.pools, 'pool')}, {own} outlive a graph"
        live, by_pytorch = exact_bytes(self.live_bytes), exact_bytes(self.pytorch_bytes)
        row = ("graphs", f"{held}; at least {live}; PyTorch's pools: {by_pytorch} bytes")
        return [row, ("  not", self.passed_on)] if self.passed_on else [row]


def graph_report(figures: GraphFigures, unserved: str) -> GraphReport:
    """Return the report; `unserved` is the reason why PyTorch serves all captures, if it does."""
    reasons = {
        unserved: unserved,
        f"{counted(figures.filled_pools, 'pool')} filled before a capture": figures.filled_pools,
        f"{counted(figures.eager_requests, 'request')} to them outside of captures": (
            figures.eager_requests
        ),
        f"{counted(figures.refused_requests, 'request')} without memory": figures.refused_requests,
    }
    by_pytorch = min(figures.default_bytes, figures.expandable_bytes)
    passed_on = ", ".join(reason for reason, holds in reasons.items() if holds)
    return GraphReport(
        figures.pools, figures.scratch_bytes, figures.own_bytes, figures.live_peak, by_pytorch,
        passed_on,
    )  # fmt: skip
