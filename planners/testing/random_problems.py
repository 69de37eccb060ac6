"""Random graphs and problems with every feature of the model, small enough for brute force.

Every function takes a ``random.Random``, so that a seed gives the same problem again.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from random import Random
from typing import Any

import numpy as np

from planners.greedy.naive import naive
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.graph import Graph
from planners.model.memories import Memory
from planners.model.problem import Problem, Safety

Count = int | tuple[int, int]
"""How many there are, or the fewest and the most."""

# How often each may occur. Some planners refuse pins, so most problems have none.
_CHANCE = {
    "alignment": 0.7,
    "capacity": 0.25,
    "chains": 0.85,
    "conflicts": 0.75,
    "divisor": 0.6,
    "gaps": 0.9,
    "pins": 0.4,
    "zero": 0.9,
}

FEATURES = frozenset(_CHANCE)

SOLVABLE = FEATURES - {"capacity", "conflicts", "divisor"}
"""Some plan solves each problem, and of so few bytes that a test may look at every one."""


def random_problem(
    rng: Random,
    safety: Safety,
    tensors: Count = (0, 10),
    *,
    features: frozenset[str] = FEATURES,
) -> Problem:
    """Return a valid random problem, infeasible only by ``conflicts`` or ``capacity``.

    Of the features, ``gaps`` need lifetimes and are left out elsewhere; with ``conflicts``, pins
    need not leave any plan; a ``capacity`` may be too small; with ``divisor``, all sizes may share
    one; ``zero`` allows tensors without bytes.
    """
    unknown = features - FEATURES
    if unknown:
        raise ValueError(f"no feature is called {sorted(unknown)}; known: {sorted(FEATURES)}")
    on = {feature for feature in sorted(features) if rng.random() < _CHANCE[feature]}
    count = _draw_count(rng, tensors)
    unit = rng.choice([2, 3, 512]) if "divisor" in on else 1
    size = _sizes(rng, count, unit, least=0 if "zero" in on else 1)
    conditions = _SAFETY[safety](rng, count)
    if safety is Safety.LIFETIMES and "gaps" in on:
        conditions["gaps"] = _gaps(rng, conditions["start"], conditions["end"])
    chains = _chains(rng, count) if "chains" in on else []
    if "alignment" in on:
        alignment = [rng.choice([1, 1, 2, 4, 8, unit & -unit]) for _ in range(count)]
        for chain in chains:
            _make_alignments_agree(rng, chain, size, alignment, unit)
        conditions["alignment"] = alignment
    conditions |= {"size": size, "contiguous": chains}
    if "capacity" in on:
        conditions["capacity"] = int(rng.uniform(0.3, 1.1) * sum(size))
    if "pins" in on and count:
        conditions["pinned"] = _pins(rng, Problem(**conditions), unit, "conflicts" in on)
    return Problem(**conditions)


def with_prices(rng: Random, problem: Problem) -> Problem:
    """Return a problem with a capacity, and a price for the reuse by some of its pairs."""
    tensors = range(problem.tensor_count)
    pairs = [pair for pair in combinations(tensors, 2) if rng.random() < 0.6]
    return problem.select(
        tensors,
        reuse_prices=[(*rng.sample(pair, 2), rng.randint(1, 9)) for pair in pairs],
        capacity=int(rng.uniform(0.4, 1.0) * problem.naive_bytes),
    )


def with_classes(rng: Random, problem: Problem) -> Problem:
    """Return a problem with groups of tensors outside of chains, pairs apart and exclusive."""
    tensors = range(problem.tensor_count)
    held = {tensor for chain in problem.contiguous for tensor in chain}
    held |= {tensor for tensor in tensors if problem.pinned[tensor] >= 0}
    free = [tensor for tensor in tensors if tensor not in held]
    rng.shuffle(free)
    groups = []
    while len(free) >= 2 and rng.random() < 0.6:
        groups.append([free.pop() for _ in range(rng.randint(2, min(3, len(free))))])
    inside = {pair for group in groups for pair in combinations(sorted(group), 2)}
    kinds = {pair: rng.random() for pair in combinations(tensors, 2) if pair not in inside}
    return problem.select(
        tensors,
        together=groups,
        apart=[pair for pair, kind in kinds.items() if kind < 0.2],
        exclusive=[pair for pair, kind in kinds.items() if kind > 0.8],
    )


def with_memories(rng: Random, problem: Problem, *, choice: bool = True) -> Problem:
    """Return a problem with two or three memories; without ``choice`` each tensor has its own."""
    most = max(1, problem.naive_bytes)
    memories, at = [], 0
    strictest = max(2, int(problem.alignment.max(initial=1)))
    for index in range(rng.randint(2, 3)):
        capacity = rng.randint(1, most)
        cuts = sorted(rng.sample(range(capacity + 1), min(2, capacity)))
        reserved = [(cuts[0], cuts[-1])] if cuts[0] < cuts[-1] and rng.random() < 0.3 else []
        memory = Memory(f"m{index}", at, capacity, rng.choice([1, 1, 2]), tuple(reserved))
        memories.append(memory)
        at = -(-(memory.end + rng.randint(0, 3)) // strictest) * strictest
    places = []
    own = {t: rng.randrange(len(memories)) for t in range(problem.tensor_count)}
    for chain in (*problem.contiguous, *problem.together):
        own.update(dict.fromkeys(chain, own[chain[0]]))
    for tensor in range(problem.tensor_count):
        for memory_ in range(len(memories)):
            if memory_ == own[tensor] or (choice and rng.random() < 0.6):
                places.append((tensor, memory_, rng.choice([0, 0, 1, 2, 5])))
    kept = range(problem.tensor_count)
    no_pins = np.full(problem.tensor_count, -1)
    return problem.select(kept, capacity=None, memories=memories, places=places, pinned=no_pins)


def random_graph(
    rng: Random, tensors: Count = (0, 12), *, max_nodes: int = 9, max_streams: int = 4
) -> Graph:
    """Return a graph with workspaces, unread tensors, control arcs and gaps in stream numbers."""
    nodes = rng.randint(1, max_nodes)
    streams = rng.sample(range(12), rng.randint(1, max_streams))
    producer = [rng.randrange(nodes) for _ in range(_draw_count(rng, tensors))]
    return Graph(
        op=[f"op{node % 3}" for node in range(nodes)],
        stream=[rng.choice(streams) for _ in range(nodes)],
        producer=producer,
        consumers=[_readers(rng, node, nodes) for node in producer],
        control=_control(rng, nodes),
    )


def _draw_count(rng: Random, count: Count) -> int:
    return count if isinstance(count, int) else rng.randint(*count)


def _sizes(rng: Random, tensors: int, unit: int, least: int) -> list[int]:
    # Few different sizes make tensors that are alike, and with them symmetry.
    largest = rng.choice([2, 4, 9, 9, 40])
    return [unit * rng.randint(least, largest) for _ in range(tensors)]


def _lifetimes(rng: Random, tensors: int) -> dict[str, Any]:
    # In few steps many tensors meet, in many steps few do.
    steps = rng.choice([16, max(3, tensors)])
    first = rng.choice([-3, 0])
    start = [first + rng.randrange(steps) for _ in range(tensors)]
    return {"start": start, "end": [s + rng.randint(1, steps // 2 + 1) for s in start]}


def _gaps(rng: Random, start: list[int], end: list[int]) -> list[tuple[int, int, int]]:
    """Return gaps of any number and length, some side by side, at either end or between."""
    gaps = []
    for tensor, (first, last) in enumerate(zip(start, end, strict=True)):
        between = range(first + 1, last)
        cuts = sorted(rng.sample(between, rng.randint(0, len(between))))
        pieces = list(pairwise([first, *cuts, last]))
        pieces.pop(rng.randrange(len(pieces)))
        gaps += [(tensor, low, high) for low, high in pieces if rng.random() < 0.6]
    rng.shuffle(gaps)
    return gaps


def _graph(rng: Random, tensors: int) -> dict[str, Any]:
    max_nodes = rng.choice([9, max(2, 2 * tensors)])
    return {"graph": random_graph(rng, tensors, max_nodes=max_nodes)}


def _readers(rng: Random, producer: int, nodes: int) -> list[int]:
    """Return who reads a tensor: nobody, few or many, its producer too, or one of them twice."""
    later = range(producer + 1, nodes)
    most = min(len(later), rng.choice([1, 2, 3, nodes]))
    readers = rng.sample(later, rng.randint(0, most))
    if rng.random() < 0.15:
        readers.append(producer)
    if readers and rng.random() < 0.1:
        readers.append(readers[0])
    rng.shuffle(readers)
    return readers


def _control(rng: Random, nodes: int) -> list[tuple[int, int]]:
    """Return control arcs: mostly few, seldom many, now and then the same one twice."""
    arcs = []
    for _ in range(rng.randint(0, rng.randint(0, nodes))):
        last = rng.randrange(nodes)
        if last:
            arcs.append((rng.randrange(last), last))
    return arcs


def _pairs(rng: Random, tensors: int) -> dict[str, Any]:
    density = rng.random()
    pairs = [
        rng.choice([(a, b), (b, a)])
        for a in range(tensors)
        for b in range(a)
        if rng.random() < density
    ]
    return {"unsafe_pairs": pairs}


def _chains(rng: Random, tensors: int) -> list[list[int]]:
    free = rng.sample(range(tensors), tensors)
    chains = []
    while len(free) >= 2 and rng.random() < 0.7:
        length = rng.randint(2, min(4, len(free)))
        chains.append([free.pop() for _ in range(length)])
    return chains


def _make_alignments_agree(
    rng: Random, chain: list[int], size: list[int], alignment: list[int], unit: int
) -> None:
    """Enlarge the sizes of a chain until one offset aligns all members, or give alignments up."""
    if rng.random() < 0.5:
        multiple = math.lcm(unit, *(alignment[tensor] for tensor in chain))
        for tensor in chain:
            size[tensor] += -size[tensor] % multiple
        return
    while not _is_alignable([size[t] for t in chain], [alignment[t] for t in chain]):
        alignment[rng.choice([tensor for tensor in chain if alignment[tensor] > 1])] = 1


def _is_alignable(size: list[int], alignment: list[int]) -> bool:
    """Return whether some offset of a chain aligns all its members."""
    before = [sum(size[:member]) for member in range(len(size))]
    # Alignments are powers of two, so all of them hold again after the strictest.
    return any(
        all((head + skipped) % a == 0 for skipped, a in zip(before, alignment, strict=True))
        for head in range(max(alignment))
    )


def _pins(rng: Random, problem: Problem, unit: int, conflicts: bool) -> dict[int, int]:
    """Return pins that suit chains and alignments and, without conflicts, leave a plan."""
    # Whatever is pinned to the offsets of a plan without any reuse leaves that plan.
    offsets = _anywhere(rng, problem, unit) if conflicts else naive(problem, Budget()).offsets
    tensors = problem.tensor_count
    count = rng.choice([1, 1, min(2, tensors), rng.randint(1, tensors)])
    return {tensor: int(offsets[tensor]) for tensor in rng.sample(range(tensors), count)}


def _anywhere(rng: Random, problem: Problem, unit: int) -> IntColumn:
    """Return offsets that keep chains and alignments, and heed no safety."""
    blocks = problem.blocks
    heads = np.array([unit * rng.randint(0, 12) for _ in range(blocks.count)])
    heads += (blocks.residue - heads) % blocks.modulus
    offsets = np.empty(problem.tensor_count, dtype=np.int64)
    offsets[blocks.members] = np.repeat(heads, np.diff(blocks.indptr)) + blocks.before
    return offsets


_SAFETY = {Safety.LIFETIMES: _lifetimes, Safety.GRAPH: _graph, Safety.PAIRS: _pairs}
