"""Small random problems with every feature of the model, for differential tests."""

from __future__ import annotations

import random
from typing import Any, Literal

from hypothesis import strategies as st

from planners.errors import InstanceError
from planners.graph import Graph
from planners.problem import Problem

Kind = Literal["lifetimes", "graph", "pairs"]

KINDS: tuple[Kind, ...] = ("lifetimes", "graph", "pairs")

FEATURES = frozenset({"alignment", "pins", "chains", "gaps", "capacity", "zero"})


def random_problem(
    rng: random.Random,
    tensors: int,
    *,
    kind: Kind,
    features: frozenset[str] = FEATURES,
) -> Problem:
    """Return a random problem.

    Parameters
    ----------
    rng
        Source of every choice.
    tensors
        Number of tensors.
    kind
        What decides safety.
    features
        Which of ``FEATURES`` may occur; each does in about half of the problems,
        a capacity in a quarter. Gaps need
        lifetimes and are left out elsewhere. Pins may be in conflict, and a capacity may be too
        small: then the problem is infeasible.

    Returns
    -------
    Problem
        Valid. Sizes often share a divisor, and are small enough for exhaustive search.
    """
    unknown = features - FEATURES
    if unknown:
        raise ValueError(f"no feature is called {sorted(unknown)}; known: {sorted(FEATURES)}")
    on = {feature for feature in sorted(features) if rng.random() < 0.5}
    unit = rng.choice([1, 1, 2, 3, 512])
    fields: dict[str, Any] = {"size": _sizes(rng, tensors, unit, "zero" in on)}
    fields |= _SAFETY[kind](rng, tensors)
    if kind == "lifetimes" and "gaps" in on:
        fields["gaps"] = _gaps(rng, fields["start"], fields["end"])
    if "chains" in on:
        fields["contiguous"] = _chains(rng, tensors)
    if "alignment" in on:
        fields["alignment"] = [rng.choice([1, 1, 2, 4, unit & -unit]) for _ in range(tensors)]
    if "pins" in on and tensors:
        pinned = rng.sample(range(tensors), rng.choice([1, 1, min(2, tensors)]))
        fields["pinned"] = {t: unit * rng.randint(0, 12) for t in pinned}
    if "capacity" in on and rng.random() < 0.5:
        fields["capacity"] = int(rng.uniform(0.3, 1.1) * sum(fields["size"]))
    return _without_contradiction(rng, fields)


@st.composite
def problems(
    draw: st.DrawFn,
    min_tensors: int = 0,
    max_tensors: int = 8,
    kinds: tuple[Kind, ...] = KINDS,
    features: frozenset[str] = FEATURES,
) -> Problem:
    """Return a Hypothesis strategy for random problems.

    Parameters
    ----------
    draw
        Given by Hypothesis.
    min_tensors, max_tensors
        How many tensors.
    kinds
        What may decide safety.
    features
        As for :func:`random_problem`.

    Returns
    -------
    Problem
        As :func:`random_problem` makes it.
    """
    tensors = draw(st.integers(min_tensors, max_tensors))
    kind = draw(st.sampled_from(kinds))
    rng = draw(st.randoms(use_true_random=False))
    return random_problem(rng, tensors, kind=kind, features=features)


def _without_contradiction(rng: random.Random, fields: dict[str, Any]) -> Problem:
    """Drop alignments, then pins, until every chain has an offset that suits all its members."""
    while True:
        try:
            return Problem(**fields)
        except InstanceError:
            strict = [t for t, a in enumerate(fields.get("alignment", ())) if a > 1]
            if strict:
                fields["alignment"][rng.choice(strict)] = 1
            elif fields.get("pinned"):
                fields["pinned"].popitem()
            else:
                raise


def _sizes(rng: random.Random, tensors: int, unit: int, zero: bool) -> list[int]:
    # Few different sizes make tensors that are alike, and with them symmetry.
    largest = rng.choice([2, 4, 9])
    return [unit * rng.randint(0 if zero else 1, largest) for _ in range(tensors)]


def _lifetimes(rng: random.Random, tensors: int) -> dict[str, Any]:
    steps = max(3, tensors)
    start = [rng.randrange(steps) for _ in range(tensors)]
    return {"start": start, "end": [s + rng.randint(1, steps // 2 + 1) for s in start]}


def _gaps(rng: random.Random, start: list[int], end: list[int]) -> list[tuple[int, int, int]]:
    gaps = []
    for tensor, (first, last) in enumerate(zip(start, end, strict=True)):
        cuts = sorted(rng.sample(range(first, last + 1), 2))
        if rng.random() < 0.7 and cuts[1] - cuts[0] < last - first:
            gaps.append((tensor, cuts[0], cuts[1]))
    return gaps


def _graph(rng: random.Random, tensors: int) -> dict[str, Any]:
    nodes = rng.randint(1, max(2, 2 * tensors))
    streams = rng.randint(1, 4)
    producer = [rng.randrange(nodes) for _ in range(tensors)]
    # A consumer that is the producer is a workspace; no consumer, a tensor that nobody reads.
    consumers = [
        sorted({rng.randrange(made, nodes) for _ in range(rng.choice([0, 1, 1, 2, 3]))})
        for made in producer
    ]
    control = [sorted(rng.sample(range(nodes), 2)) for _ in range(rng.randrange(nodes))]
    graph = Graph(
        op=[f"op{node}" for node in range(nodes)],
        stream=[rng.randrange(streams) for _ in range(nodes)],
        producer=producer,
        consumers=consumers,
        control=[(u, v) for u, v in control],
    )
    return {"graph": graph}


def _pairs(rng: random.Random, tensors: int) -> dict[str, Any]:
    density = rng.choice([0.2, 0.5, 0.8])
    pairs = [
        rng.choice([(a, b), (b, a)])
        for a in range(tensors)
        for b in range(a)
        if rng.random() < density
    ]
    return {"unsafe_pairs": pairs}


def _chains(rng: random.Random, tensors: int) -> list[list[int]]:
    left = rng.sample(range(tensors), tensors)
    chains = []
    while len(left) >= 2 and rng.random() < 0.7:
        length = rng.randint(2, min(3, len(left)))
        chains.append([left.pop() for _ in range(length)])
    return chains


_SAFETY = {"lifetimes": _lifetimes, "graph": _graph, "pairs": _pairs}
