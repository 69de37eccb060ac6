"""Graphs with streams whose optimum is known, though the global order hides it.

Note [Stream packing]
~~~~~~~~~~~~~~~~~~~~~
*The instance.* A rectangle of time and memory is cut into regions, and each region into tensors
that fill it. A region is a run of nodes on one stream. At each of its steps one node is the last
reader of the tensors that end there, and the next node makes the tensors that start there. Regions
that overlap in time are on different streams. A control arc leads from the last node of a region to
the first node of another region, if the other one starts no earlier than the first one ends and
shares addresses with it.

*Why the height is enough.* Two tensors that share addresses live at different times. In one region
the order of its stream makes them safe; in two regions the arc between the regions does.

*Why no plan takes less.* At each time, the regions of that time fill the height. No directed path
joins two of them, because an arc or the order of a stream leads from a region only to a region that
starts no earlier than the first one ends. So tensors of two such regions are pairwise unsafe. In
each region, the tensors alive at one step are pairwise unsafe and as high as the region. Together
they are an antichain of the whole height.

*What is hidden.* The global order is a random topological order that mostly stays within a region.
Its live bytes are often far below the optimum, which only the antichain bound reaches.
"""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np

from instances.synthetic.family import UNIT_BYTES, Drawing, Rectangle, family, require_between
from instances.synthetic.perfect_packings import cut_rectangle
from planners.model.columns import IntColumn
from planners.model.graph import Graph
from planners.model.problem import Problem

# Probability that the next node is of the same region; a guess.
STAYS = 0.98
# Regions at most, because time grows with their square; a guess.
MOST_REGIONS = 1000


@family(tensors=1, steps=1, units=1)
def multi_stream_packing(
    tensors: int, *, regions: int = 8, steps: int = 256, units: int = 4096, seed: int = 0
) -> Drawing:
    """Return a graph with streams that has a known plan; see Note [Stream packing].

    Parameters
    ----------
    tensors
        Number of tensors, at least ``regions``.
    regions
        Runs of nodes on one stream, at least 1. There are as many streams as regions overlap.
    steps
        Steps of time in which the known plan is drawn, at least 1.
    units
        Units of memory of 512 bytes, at least 1.

    Returns
    -------
    Problem
        Its optimum is the height of the rectangle, and so is its antichain bound.
    """
    require_between("regions", regions, 1, min(tensors, MOST_REGIONS))
    rng = Random(seed)
    areas = sorted(cut_rectangle(Rectangle(0, steps, 0, units), regions, rng))
    counts = _share_out(tensors, [area.area for area in areas])
    contents = [
        sorted(cut_rectangle(area, count, rng)) for area, count in zip(areas, counts, strict=True)
    ]
    graph, size, offset = _run(areas, contents, rng)
    return Drawing(
        partial(Problem, size, graph=graph),
        f"streams-{tensors}-{graph.stream_count}",
        units * UNIT_BYTES,
        "a perfect packing is a plan; regions side by side are an antichain as high",
        offset,
    )


def _share_out(tensors: int, areas: list[int]) -> list[int]:
    """Return how many tensors each region is cut into: one, and the rest by area."""
    extra = tensors - len(areas)
    reached = np.floor(extra * np.cumsum(areas) / sum(areas)).astype(np.int64)
    return [1 + int(count) for count in np.diff(reached, prepend=0)]


def _run(
    areas: list[Rectangle], contents: list[list[Rectangle]], rng: Random
) -> tuple[Graph, IntColumn, IntColumn]:
    """Return the regions as runs of nodes, and size and offset of each tensor in bytes."""
    streams = _streams(areas)
    arcs = _arcs(areas, streams)
    moments = [
        sorted({moment for piece in pieces for moment in (piece.start, piece.end)})
        for pieces in contents
    ]
    # A region has two nodes a moment: one frees what ends, and the next makes what starts.
    lengths = [2 * len(steps) for steps in moments]
    order = _node_order(lengths, arcs, rng)
    node = {place: index for index, place in enumerate(order)}
    made = []
    for region, pieces in enumerate(contents):
        place = {moment: 2 * index for index, moment in enumerate(moments[region])}
        for piece in pieces:
            made.append(
                (node[region, place[piece.start] + 1], node[region, place[piece.end]], piece)
            )
    rng.shuffle(made)
    made.sort(key=lambda tensor: tensor[0])
    graph = Graph(
        op=["free" if position % 2 == 0 else "make" for _, position in order],
        stream=[streams[region] for region, _ in order],
        producer=[producer for producer, _, _ in made],
        consumers=[[consumer] for _, consumer, _ in made],
        control=[(node[a, lengths[a] - 1], node[b, 0]) for a, b in arcs],
    )
    size = np.array([piece.top - piece.bottom for _, _, piece in made]) * UNIT_BYTES
    offset = np.array([piece.bottom for _, _, piece in made]) * UNIT_BYTES
    return graph, size, offset


def _streams(areas: list[Rectangle]) -> list[int]:
    """Return a stream for each region, sorted by start: the first that is free by then."""
    free_from: list[int] = []
    streams = []
    for area in areas:
        free = [stream for stream, moment in enumerate(free_from) if moment <= area.start]
        if not free:
            free = [len(free_from)]
            free_from.append(0)
        free_from[free[0]] = area.end
        streams.append(free[0])
    return streams


def _arcs(areas: list[Rectangle], streams: list[int]) -> list[tuple[int, int]]:
    """Return the pairs of regions whose second waits for the first."""
    return [
        (a, b)
        for b, later in enumerate(areas)
        for a, earlier in enumerate(areas)
        if earlier.end <= later.start
        and (streams[a] == streams[b] or _share_addresses(earlier, later))
    ]


def _share_addresses(a: Rectangle, b: Rectangle) -> bool:
    return a.bottom < b.top and b.bottom < a.top


def _node_order(
    lengths: list[int], arcs: list[tuple[int, int]], rng: Random
) -> list[tuple[int, int]]:
    """Return the nodes, as region and position, in a random topological order."""
    waits_for: list[set[int]] = [set() for _ in lengths]
    for a, b in arcs:
        waits_for[b].add(a)
    position = [0] * len(lengths)
    order: list[tuple[int, int]] = []
    ended: set[int] = set()
    region = -1
    while len(ended) < len(lengths):
        if region < 0 or region in ended or rng.random() > STAYS:
            region = rng.choice(
                [r for r in range(len(lengths)) if r not in ended and waits_for[r] <= ended]
            )
        order.append((region, position[region]))
        position[region] += 1
        if position[region] == lengths[region]:
            ended.add(region)
    return order
