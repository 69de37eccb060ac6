"""Multi-stream safety: algorithms that find the pairs of tensors that may not share bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from planners import _core
from planners.errors import GaplessError, InstanceError, near_names
from planners.model.graph import Graph

DEFAULT_ALGORITHM = "clocks"
# Limits the memory of vector clocks: one number for each node and stream.
MAX_CLOCK_BYTES = _core.MOST_TABLE_BYTES

ALGORITHMS: dict[str, Callable[[_core.Graph], _core.BitRows]] = {
    "1": _core.unsafe_by_ancestors,
    "1opt": _core.unsafe_by_last_ancestors,
    "2": _core.unsafe_by_streams,
    DEFAULT_ALGORITHM: _core.unsafe_by_clocks,
}


def unsafe_rows(graph: Graph, algorithm: str = DEFAULT_ALGORITHM) -> _core.BitRows:
    """Return the unsafe pairs as rows of bits; every algorithm returns the same rows.

    Source: Lamprou et al. 2023, section 3, algorithms 1 to 5.
    """
    if algorithm not in ALGORITHMS:
        raise GaplessError(
            f"no safety algorithm is called {algorithm!r}; {near_names(algorithm, ALGORITHMS)}"
        )
    return ALGORITHMS[algorithm](core_graph(graph))


def core_graph(graph: Graph) -> _core.Graph:
    """Return the graph in the core's form, with streams numbered without holes.

    Raises ``InstanceError`` if the vector clocks of all nodes would take more than
    ``MAX_CLOCK_BYTES``.
    """
    needed = graph.node_count * graph.stream_count * 4
    if needed > MAX_CLOCK_BYTES:
        raise InstanceError(
            f"field graph.stream: {graph.node_count} nodes on {graph.stream_count} streams would "
            f"take {needed} bytes of clocks, and at most {MAX_CLOCK_BYTES} are taken"
        )
    narrow = partial(np.ascontiguousarray, dtype=np.int32)
    _, stream = np.unique(graph.stream, return_inverse=True)
    return _core.Graph(
        narrow(stream),
        narrow(graph.producer),
        graph.consumer_offsets,
        narrow(graph.consumer_nodes),
        narrow(graph.control),
    )
