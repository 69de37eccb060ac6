"""The random problems hold what the tests that draw them rest on: every case, again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from planners import Problem, Safety, bounds_of
from planners.testing.random_problems import FEATURES, SOLVABLE, random_graph, random_problem

SEEDS = range(400)


def cases_of(problem: Problem) -> Iterator[str]:
    """Name what occurs in a problem, whatever decides safety."""
    aligned, pinned = problem.alignment > 1, problem.pinned >= 0
    chains = [list(chain) for chain in problem.contiguous]
    plain = problem.size % 8 > 0
    for case, occurs in {
        "no tensors": not problem.tensor_count,
        "many sizes": len(set(problem.size.tolist())) > 4,
        "a size twice": len(set(problem.size.tolist())) < problem.tensor_count,
        "without bytes": (problem.size == 0).any(),
        "a chain of four": any(len(chain) == 4 for chain in chains),
        "two chains": len(chains) > 1,
        "aligned apart from chains": aligned.any() and not chains,
        "aligned behind what is no multiple": (problem.blocks.residue > 0).any(),
        "two aligned in a chain": any(aligned[chain].sum() > 1 for chain in chains),
        "aligned only in front": any(
            aligned[chain[0]] and plain[chain[0]] and not aligned[chain[1:]].any()
            for chain in chains
        ),
        "a pin within a chain": any(pinned[chain[1:]].any() for chain in chains),
        "two pins in a chain": any(pinned[chain].sum() > 1 for chain in chains),
        "three pins": pinned.sum() > 2,
    }.items():
        if occurs:
            yield case


def cases_of_conflict(problem: Problem) -> Iterator[str]:
    """Name what occurs only where problems may be infeasible or of many bytes."""
    bound = max(bound.bytes for bound in bounds_of(problem))
    capacity = problem.capacity
    conflict = problem.core.conflicting_pins() is not None
    for case, occurs in {
        "pins in conflict": conflict,
        "pins of which none is in conflict": (problem.pinned >= 0).any() and not conflict,
        "a capacity below a bound": capacity is not None and capacity < bound,
        "a capacity of everything": capacity is not None and capacity >= problem.naive_bytes,
        "sizes in thirds": problem.naive_bytes and not (problem.size % 3).any(),
        "sizes in sectors": problem.naive_bytes and not (problem.size % 512).any(),
        "aligned to a sector": (problem.alignment == 512).any(),
    }.items():
        if occurs:
            yield case


def cases_of_gaps(problem: Problem) -> Iterator[str]:
    """Name what occurs in lifetimes."""
    if (problem.start < 0).any():
        yield "a negative step"
    rows = sorted(problem.gaps.tolist())
    for tensor, first, last in rows:
        if first == problem.start[tensor]:
            yield "a gap in front"
        if last == problem.end[tensor]:
            yield "a gap at the end"
        if last - first > 1:
            yield "a gap of several steps"
    for (one, _, end), (other, start, _) in pairwise(rows):
        if one == other:
            yield "gaps side by side" if end == start else "gaps apart"


def drawn(safety: Safety, features: frozenset[str]) -> list[Problem]:
    return [random_problem(Random(seed), safety, features=features) for seed in SEEDS]


@pytest.mark.parametrize("safety", Safety)
@pytest.mark.parametrize("features", [SOLVABLE, FEATURES], ids=["solvable", "all"])
def test_every_case_is_drawn(safety: Safety, features: frozenset[str]) -> None:
    counts = Counter(case for p in drawn(safety, features) for case in set(cases_of(p)))
    assert len(counts) == 13
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize("safety", Safety)
def test_every_conflict_is_drawn(safety: Safety) -> None:
    counts = Counter(c for p in drawn(safety, FEATURES) for c in set(cases_of_conflict(p)))
    assert len(counts) == 7
    assert min(counts.values()) >= 5, counts


def test_every_kind_of_gap_is_drawn() -> None:
    problems = drawn(Safety.LIFETIMES, SOLVABLE)
    counts = Counter(case for problem in problems for case in set(cases_of_gaps(problem)))
    assert len(counts) == 6
    assert min(counts.values()) >= 50, counts


@pytest.mark.parametrize("safety", Safety)
def test_a_feature_left_out_does_not_occur(safety: Safety) -> None:
    for problem in drawn(safety, frozenset()):
        assert (problem.alignment == 1).all()
        assert (problem.pinned < 0).all()
        assert (problem.size > 0).all()
        assert (problem.contiguous, len(problem.gaps), problem.capacity) == ((), 0, None)


@pytest.mark.parametrize("safety", Safety)
def test_solvable_problems_have_no_conflict(safety: Safety) -> None:
    for problem in drawn(safety, SOLVABLE):
        assert problem.core.conflicting_pins() is None
        assert problem.capacity is None


def test_graphs_hold_gaps_in_stream_numbers_and_repeated_arcs() -> None:
    graphs = [random_graph(Random(seed)) for seed in SEEDS]
    assert sum(graph.stream.max() >= graph.stream_count for graph in graphs) > 50
    assert sum(len(set(map(tuple, g.control.tolist()))) < len(g.control) for g in graphs) > 10
    readers = [g.consumers_of(t).tolist() for g in graphs for t in range(g.tensor_count)]
    assert sum(len(set(read)) < len(read) for read in readers) > 50
    assert sum(read != sorted(read) for read in readers) > 50


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no feature is called \['pin'\]; known: \['alignment'"):
        random_problem(Random(0), Safety.PAIRS, features=frozenset({"pin"}))
