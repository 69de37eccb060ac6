"""The stream of each node: full streams by category, or one stream for each role.

Note: what a full stream means
------------------------------
Rationale. The paper says that a new stream is created when the current one is full, but not what
orders the two. If only data orders them, the place of the border decides. A stream that begins
within the update of a parameter reads a result of the full stream, so it waits for that stream, and
the two run one after the other. A stream that begins between two updates reads no such result, and
runs beside the full stream to its end. So the share of unsafe pairs jumps with the nodes in a
stream, and says nothing of the model (docs/recording.md).

Approach. ``CATEGORY`` takes the paper at its word; the committed instances are made with it.
``SUCCESSION`` adds an arc from the last node of a full stream to the first of the next. Then the
nodes of a category are in one order in any number of streams, and safety does not depend on this
number. The framework in which the paper measured does the same: the last operation of a full stream
starts the next one (``StreamActive``, MindSpore's ``ascend_stream_assign.cc``).

Limits. The paper does not say whether its memory solver counts that as an order.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from instances.extract.step_settings import StreamScheme
from planners.errors import InstanceError
from planners.model.graph import Graph
from planners.model.problem import Problem

ALL_REDUCE = "all_reduce"
ALL_GATHER = "all_gather"
REDUCE_SCATTER = "reduce_scatter"
ALL_TO_ALL = "all_to_all"

COMMUNICATION_OPS = frozenset({ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL})


class Category(enum.Enum):
    """Kind of node; a stream holds nodes of one kind."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    OTHER = "other"


class StreamRole(enum.Enum):
    """The role of a stream, if each role has one stream."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPY = "copy"


# Operators that make or move data without arithmetic. An operator in neither set computes.
OTHER_OPS = frozenset(
    {
        "_to_copy", "arange", "cat", "clone", "constant_pad_nd", "copy_", "dispatch_rows",
        "embedding", "fill_", "full", "full_like", "index", "input", "masked_fill",
        "masked_fill_", "new_ones", "new_zeros", "ones", "ones_like", "output", "scalar_tensor",
        "stack", "zeros", "zeros_like",
    }
)  # fmt: skip

# The batch comes from the host and the loss goes there.
HOST_COPY_OPS = frozenset({"input", "output"})


def category_of(op: str) -> Category:
    """Return the category of an operator: compute unless it is known for another."""
    if op in COMMUNICATION_OPS:
        return Category.COMMUNICATION
    return Category.OTHER if op in OTHER_OPS else Category.COMPUTE


def role_of(op: str) -> StreamRole:
    """Return the role of the stream that an operator runs on.

    Copies within the device are kernels like any other, so only copies from and to the host
    have a stream of their own. All collectives share one: PyTorch runs those of a process group
    on one internal stream in the order in which they were issued, and so a gather that is issued
    after a reduction waits for it. Gathers and reductions on two streams would need two
    communicators, and the backward pass could run ahead of its reductions without limit.
    """
    if op in COMMUNICATION_OPS:
        return StreamRole.COMMUNICATION
    return StreamRole.COPY if op in HOST_COPY_OPS else StreamRole.COMPUTE


def assign_streams(
    ops: Sequence[str], nodes_per_stream: int, scheme: StreamScheme = StreamScheme.CATEGORY
) -> list[int]:
    """Give each node a stream, numbered from 0 in the order of their first nodes.

    A stream of a category holds at most so many nodes, in succession or not; a role has no limit.
    """
    if scheme is StreamScheme.ROLES:
        number: dict[StreamRole, int] = {}
        return [number.setdefault(role_of(op), len(number)) for op in ops]
    return _fill_streams(ops, nodes_per_stream)


def _fill_streams(ops: Sequence[str], nodes_per_stream: int) -> list[int]:
    """Traverse the nodes in order and open a new stream when that of a category is full.

    Source: Lamprou et al. 2023, section 5.1.
    """
    streams: list[int] = []
    current: dict[Category, int] = {}
    nodes_on: list[int] = []
    for op in ops:
        category = category_of(op)
        if category not in current or nodes_on[current[category]] == nodes_per_stream:
            current[category] = len(nodes_on)
            nodes_on.append(0)
        nodes_on[current[category]] += 1
        streams.append(current[category])
    return streams


def find_successions(ops: Sequence[str], streams: Sequence[int]) -> list[tuple[int, int]]:
    """Find the pairs of a full stream and the next stream of its category.

    A pair has the last node of the full stream and the first node of the next.
    """
    last: dict[Category, int] = {}
    found: list[tuple[int, int]] = []
    for node, op in enumerate(ops):
        category = category_of(op)
        if category in last and streams[last[category]] != streams[node]:
            found.append((last[category], node))
        last[category] = node
    return found


def dealt_again(problem: Problem, nodes_per_stream: int, scheme: StreamScheme) -> Problem:
    """Return the same tensors, without chains, whose nodes run on other streams; arcs stay."""
    graph = problem.graph
    if graph is None:
        raise InstanceError(
            f"{problem.name}: a graph is needed to deal its nodes to streams, found lifetimes or "
            f"pairs alone"
        )
    streams = assign_streams(graph.op, nodes_per_stream, scheme)
    control = {(int(before), int(after)) for before, after in graph.control}
    if scheme is StreamScheme.SUCCESSION:
        control.update(find_successions(graph.op, streams))
    return Problem(
        problem.size,
        graph=Graph(
            op=graph.op,
            stream=streams,
            producer=graph.producer,
            consumers=[graph.consumers_of(tensor) for tensor in range(graph.tensor_count)],
            control=sorted(control),
            work=graph.work,
        ),
    )


def count_open(graph: Graph) -> tuple[int, int]:
    """Return the number of streams that never wait for the full one before, and of all such."""
    borders = find_successions(graph.op, graph.stream.tolist())
    ends = {before: 1 << border for border, (before, _) in enumerate(borders)}
    arcs: list[list[int]] = [[] for _ in graph.op]
    for tensor, reader in zip(
        graph.consumer_tensors.tolist(), graph.consumer_nodes.tolist(), strict=True
    ):
        arcs[reader].append(int(graph.producer[tensor]))
    for before, after in graph.control.tolist():
        arcs[after].append(before)
    # Bit by bit, which ends of full streams a node comes after.
    waits = [0] * graph.node_count
    last_on: dict[int, int] = {}
    for node, stream in enumerate(graph.stream.tolist()):
        for before in (*arcs[node], *([last_on[stream]] if stream in last_on else [])):
            if before != node:
                waits[node] |= waits[before] | ends.get(before, 0)
        last_on[stream] = node
    open_count = sum(
        not waits[last_on[int(graph.stream[after])]] >> border & 1
        for border, (_, after) in enumerate(borders)
    )
    return open_count, len(borders)
