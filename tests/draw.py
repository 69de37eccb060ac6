"""Random problems, small enough for brute force.

Every function takes a ``random.Random``: a seeded one in a loop, or the one that Hypothesis
hands out and shrinks.
"""

from __future__ import annotations

from random import Random
from typing import Any

from planners import Graph, InstanceError, Problem, Safety
from planners.budget import Budget
from planners.greedy.naive import naive


def graph(rng: Random, max_nodes: int = 9, max_streams: int = 4, max_tensors: int = 12) -> Graph:
    """Return a graph with workspaces, unread tensors, control arcs and gaps in stream numbers."""
    nodes = rng.randint(1, max_nodes)
    streams = rng.sample(range(12), rng.randint(1, max_streams))
    producer = [rng.randrange(nodes) for _ in range(rng.randint(0, max_tensors))]
    consumers = []
    for node in producer:
        readers = [v for v in range(node + 1, nodes) if rng.random() < 0.25]
        if rng.random() < 0.1:
            readers.append(node)
        if readers and rng.random() < 0.1:
            readers.append(readers[0])
        rng.shuffle(readers)
        consumers.append(readers)
    control = [
        (u, v) for u in range(nodes) for v in range(u + 1, nodes) if rng.random() < 0.5 / nodes
    ]
    return Graph(
        op=[f"op{v % 3}" for v in range(nodes)],
        stream=[rng.choice(streams) for _ in range(nodes)],
        producer=producer,
        consumers=consumers,
        control=control,
    )


def problem(
    rng: Random,
    safety: Safety,
    *,
    max_tensors: int = 10,
    max_size: int = 9,
    min_size: int = 0,
    chains: bool = True,
    alignment: bool = True,
    pins: bool = True,
    gaps: bool = True,
) -> Problem:
    """Return a problem of one kind that some plan solves."""
    conditions: dict[str, Any] = {}
    if safety is Safety.GRAPH:
        conditions["graph"] = graph(rng, max_tensors=max_tensors)
        tensors = conditions["graph"].tensor_count
    else:
        tensors = rng.randint(0, max_tensors)
    if safety is Safety.LIFETIMES:
        conditions["start"] = [rng.randint(-3, 12) for _ in range(tensors)]
        conditions["end"] = [start + rng.randint(1, 7) for start in conditions["start"]]
        if gaps:
            conditions["gaps"] = _gaps(rng, conditions["start"], conditions["end"])
    elif safety is Safety.PAIRS:
        density = rng.random()
        conditions["unsafe_pairs"] = [
            (a, b) if rng.random() < 0.5 else (b, a)
            for a in range(tensors)
            for b in range(a)
            if rng.random() < density
        ]
    conditions["size"] = [rng.randint(min_size, max_size) for _ in range(tensors)]
    if chains:
        conditions["contiguous"] = _chains(rng, tensors)
    if alignment and rng.random() < 0.7:
        conditions["alignment"] = [rng.choice([1, 1, 1, 2, 4, 8]) for _ in range(tensors)]
        _align_chains(rng, conditions)
    unpinned = Problem(**conditions)
    if not pins or rng.random() < 0.5:
        return unpinned
    # Offsets without any reuse: whatever is pinned to them leaves a plan.
    offsets = naive(unpinned, Budget()).offsets.tolist()
    pinned = {t: offsets[t] for t in range(tensors) if rng.random() < 0.2}
    return Problem(**conditions, pinned=pinned)


def _gaps(rng: Random, start: list[int], end: list[int]) -> list[tuple[int, int, int]]:
    rows = []
    for tensor, (first, last) in enumerate(zip(start, end, strict=True)):
        if rng.random() < 0.5:
            continue
        needed = {rng.randrange(first, last)} | {
            step for step in range(first, last) if rng.random() < 0.5
        }
        rows += [(tensor, step, step + 1) for step in range(first, last) if step not in needed]
    rng.shuffle(rows)
    return rows


def _chains(rng: Random, tensors: int) -> list[list[int]]:
    free = list(range(tensors))
    rng.shuffle(free)
    chains = []
    while len(free) >= 2 and rng.random() < 0.6:
        length = rng.randint(2, min(4, len(free)))
        chains.append(free[:length])
        del free[:length]
    return chains


def _align_chains(rng: Random, conditions: dict[str, Any]) -> None:
    """Make the alignments within every chain agree, by its sizes or by giving them up."""
    for chain in conditions.get("contiguous", []):
        if rng.random() < 0.5:
            for tensor in chain:
                conditions["size"][tensor] = 8 * rng.randint(0, 2)
        else:
            try:
                Problem(
                    [conditions["size"][t] for t in chain],
                    unsafe_pairs=[],
                    alignment=[conditions["alignment"][t] for t in chain],
                    contiguous=[list(range(len(chain)))],
                )
            except InstanceError:
                for tensor in chain[1:]:
                    conditions["alignment"][tensor] = 1
