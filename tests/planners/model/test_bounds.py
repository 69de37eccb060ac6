"""Lower bounds: exact where they claim to be, proven by their witness, and below every plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.synthetic import training_graph
from planners import (
    Bound,
    Graph,
    Problem,
    Safety,
    Status,
    _core,
    bounds_of,
    place,
    place_in_objects,
    run,
)
from planners.compare.comparison import compare_planners
from planners.greedy.naive import naive
from planners.model import bounds as bounds_module
from planners.model.bounds import (
    CLIQUE_STARTS,
    QUICK_CLIQUE_STEPS,
    BoundTooLargeError,
    aligned_bound,
    antichain_bound,
    block_bound,
    bounds_are_known,
    clique_bound,
    lifetime_bound,
)
from planners.model.budget import Budget
from planners.registry import choose
from planners.testing.random_problems import SOLVABLE, random_graph, random_problem
from tests import definitions

pytestmark = pytest.mark.core


def heaviest_clique(problem: Problem) -> int:
    """Return the bytes of the heaviest pairwise unsafe set, over all sets."""
    unsafe = definitions.unsafe(problem)
    size: list[int] = problem.size.tolist()
    cliques: list[tuple[int, ...]] = [()]
    for tensor in range(problem.tensor_count):
        cliques += [(*c, tensor) for c in cliques if all((m, tensor) in unsafe for m in c)]
    return max(sum(size[t] for t in clique) for clique in cliques)


def largest_live_sum(problem: Problem) -> int:
    needed = [definitions.steps_needed(problem, t) for t in range(problem.tensor_count)]
    steps = set().union(*needed)
    return max(
        (sum(int(problem.size[t]) for t, n in enumerate(needed) if step in n) for step in steps),
        default=0,
    )


def assert_witness(problem: Problem, bound: Bound) -> None:
    """Check that the witness is pairwise unsafe and holds the bytes of the bound."""
    witness = bound.witness.tolist()
    assert bound.witness.dtype == np.int64
    assert int(problem.size[witness].sum()) == bound.bytes
    unsafe = definitions.unsafe(problem)
    assert all(pair in unsafe for pair in combinations(sorted(witness), 2))


@pytest.mark.parametrize("safety", [Safety.LIFETIMES, Safety.GRAPH])
@given(rng=st.randoms(use_true_random=False))
def test_lifetime_is_the_largest_live_sum(rng: Random, safety: Safety) -> None:
    problem = random_problem(rng, safety, features=SOLVABLE)
    bound = lifetime_bound(problem)
    assert (bound.name, bound.bytes) == ("lifetime", largest_live_sum(problem))
    assert_witness(problem, bound)


#  stream 0:  0 --a--> 1      in the global order 0, 1, 2, 3 a is dead before b is born;
#  stream 1:  2 --b--> 3      side by side both may be needed at once
SIDE_BY_SIDE = Graph(op=["op"] * 4, stream=[0, 0, 1, 1], producer=[0, 2], consumers=[[1], [3]])


def rounded_sum(problem: Problem, tensors: list[int]) -> int:
    """Return the largest sum over alignments, with the size of one tensor as it is."""
    some = [tensor for tensor in tensors if problem.size[tensor]]
    sums = [0]
    for least in set(problem.alignment.tolist()):
        sizes = [int(problem.size[t]) for t in some if problem.alignment[t] >= least]
        up = [-(-size // least) * least for size in sizes]
        sums += [min((sum(up) - a + b for a, b in zip(up, sizes, strict=True)), default=0)]
    return max(sums)


@pytest.mark.parametrize("safety", [Safety.LIFETIMES, Safety.GRAPH])
@given(rng=st.randoms(use_true_random=False))
def test_aligned_is_the_largest_rounded_sum_of_a_step(rng: Random, safety: Safety) -> None:
    problem = random_problem(rng, safety, (0, 14), features=SOLVABLE)
    needed = [definitions.steps_needed(problem, t) for t in range(problem.tensor_count)]
    steps = set().union(*needed)
    live = ([t for t, n in enumerate(needed) if step in n] for step in steps)
    best = max((rounded_sum(problem, tensors) for tensors in live), default=0)
    bound = aligned_bound(problem)
    assert bound.bytes == rounded_sum(problem, bound.witness.tolist()) <= best
    if best > lifetime_bound(problem).bytes:
        assert bound.bytes == best


@pytest.mark.parametrize(
    ("problem", "bytes_needed", "name"),
    [
        (Problem([17, 17], graph=SIDE_BY_SIDE, alignment=[16, 16]), 32 + 17, "aligned"),
        # The last tensor keeps its own size: best, one from which rounding differs most.
        (Problem([17, 17, 40], [0] * 3, [1] * 3, alignment=[16] * 3), 32 + 48 + 17, "aligned"),
        # The bound is that of the best step.
        (Problem([31, 17, 31], [0, 1, 2], [2, 3, 4], alignment=[16] * 3), 32 + 17, "aligned"),
        # A tensor aligned to 1 fits into what the others are rounded by.
        (Problem([17, 17, 9], [0] * 3, [1] * 3, alignment=[16, 16, 1]), 32 + 17, "aligned"),
        (Problem([17, 17], unsafe_pairs=[(0, 1)], alignment=[16, 16]), 32 + 17, "aligned"),
        # The weakest alignment rounds the others, though not its own tensor.
        (Problem([5, 5, 8], [0] * 3, [1] * 3, alignment=[8, 8, 4]), 8 + 8 + 5, "aligned"),
        # Nothing is rounded.
        (Problem([32, 16], [0] * 2, [1] * 2, alignment=[16] * 2), 48, "lifetime"),
    ],
)
def test_alignment_adds_what_an_optimal_plan_needs(
    problem: Problem, bytes_needed: int, name: str
) -> None:
    result = run(problem, "auto", Budget(node_limit=1000))
    assert (result.status, result.peak) == (Status.OPTIMAL, bytes_needed)
    assert (result.lower_bound, result.certificate) == (bytes_needed, name)


def test_antichain_is_exact_on_seeded_graphs() -> None:
    above_lifetime = 0
    for seed in range(300):
        rng = Random(seed)
        graph = random_graph(rng, (0, 13), max_nodes=14)
        size = [rng.choice([0, 1, 3, 7, 50]) for _ in range(graph.tensor_count)]
        problem = Problem(size, graph=graph)
        assert_antichain(problem)
        above_lifetime += antichain_bound(problem).bytes > lifetime_bound(problem).bytes
    assert above_lifetime > 30, "graphs in which streams matter are drawn"


def assert_antichain(problem: Problem) -> None:
    bound = antichain_bound(problem)
    assert (bound.name, bound.bytes) == ("antichain", heaviest_clique(problem))
    assert bound.bytes >= lifetime_bound(problem).bytes
    assert_witness(problem, bound)


@given(st.randoms(use_true_random=False))
def test_antichain_on_one_stream_is_the_lifetime_bound(rng: Random) -> None:
    graph = random_graph(rng, (0, 40), max_nodes=30, max_streams=1)
    problem = Problem([rng.randint(0, 99) for _ in range(graph.tensor_count)], graph=graph)
    assert antichain_bound(problem).bytes == lifetime_bound(problem).bytes
    assert [bound.name for bound in bounds_of(problem)] == ["lifetime", "block"]


@pytest.mark.parametrize("seed", range(6))
def test_antichain_of_larger_graphs_has_a_witness(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, (0, 150), max_nodes=60, max_streams=6)
    problem = Problem([rng.randint(0, 1 << 50) for _ in range(graph.tensor_count)], graph=graph)
    bound = antichain_bound(problem)
    assert bound.bytes >= lifetime_bound(problem).bytes
    assert_witness(problem, bound)


def test_antichain_of_sizes_near_the_limit() -> None:
    graph = Graph(op=["op"] * 4, stream=[0, 0, 1, 1], producer=[0, 1, 2, 3],
                  consumers=[[1], [], [3], []], control=[(1, 2)])  # fmt: skip
    size = [(1 << 59) - 7, (1 << 59) + 3, (1 << 60) - 9, 1]
    problem = Problem(size, graph=graph)
    assert antichain_bound(problem).bytes == heaviest_clique(problem) == size[0] + size[1]


def wide_problem() -> Problem:
    """Return a problem whose antichain takes a while."""
    rng = Random(1)
    graph = random_graph(rng, 0, max_nodes=1200, max_streams=10)
    nodes = graph.node_count
    producer = [rng.randrange(nodes - 1) for _ in range(500)]
    wide = Graph(
        op=graph.op, stream=graph.stream, producer=producer,
        consumers=[[rng.randint(p + 1, nodes - 1)] for p in producer],
    )  # fmt: skip
    return Problem([rng.randint(1, 99) for _ in producer], graph=wide)


def test_antichain_keeps_its_time_limit() -> None:
    problem = wide_problem()
    with pytest.raises(TimeoutError):
        antichain_bound(problem, seconds=0)
    assert [bound.name for bound in bounds_of(problem, seconds=0)] == ["lifetime", "block"]
    assert not bounds_are_known(problem)


def test_antichain_goes_on_where_it_was_stopped() -> None:
    problem, whole = wide_problem(), wide_problem()
    seconds, stopped = 1e-5, 0
    while not bounds_are_known(problem):
        with suppress(TimeoutError):
            antichain_bound(problem, seconds)
        seconds, stopped = 1.3 * seconds, stopped + 1
    assert stopped > 2, "small steps are taken"
    assert antichain_bound(problem).bytes == antichain_bound(whole).bytes
    assert_witness(problem, antichain_bound(problem))


def test_a_witness_cannot_be_written_to() -> None:
    for bound in bounds_of(training_graph(60, streams=2, chains=2, seed=1)):
        with pytest.raises(ValueError, match="WRITEABLE"):
            bound.witness.setflags(write=True)


def test_an_antichain_that_does_not_fit_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planners.safety.algorithms.MAX_CLOCK_BYTES", 7)
    problem = training_graph(60, streams=2, chains=2, seed=1)
    for _ in range(2):
        with pytest.raises(BoundTooLargeError, match="bytes of clocks, and at most 7 are taken"):
            antichain_bound(problem)
    assert [bound.name for bound in bounds_of(problem)] == ["lifetime", "block"]
    assert bounds_are_known(problem)


def test_the_clique_grows_with_every_call_until_all_is_tried() -> None:
    rng = Random(3)
    tensors = 3 * QUICK_CLIQUE_STEPS // CLIQUE_STARTS
    pairs = [(rng.randrange(a), a) for a in range(1, tensors) for _ in range(4)]
    problem = Problem([rng.randint(1, 99) for _ in range(tensors)], unsafe_pairs=pairs)
    found = [clique_bound(problem, seconds=0).bytes]
    assert not bounds_are_known(problem)
    while not bounds_are_known(problem):
        found.append(clique_bound(problem, seconds=1e-3).bytes)
    assert found == sorted(found)
    again = Problem(problem.size, unsafe_pairs=pairs)
    assert clique_bound(again).bytes == found[-1]


def test_bounds_are_computed_once_for_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            made.append(name)
            return function(*arguments)

        return call

    for module, name in (
        (bounds_module, "lifetime_bound"),
        (bounds_module, "block_bound"),
        (_core, "AntichainSearch"),
    ):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    problem = training_graph(60, streams=2, chains=2, seed=1)
    compare_planners(problem, choose("*"), Budget(time_limit_seconds=0.3))
    compare_planners(problem.with_capacity(1 << 40), choose("auto"), Budget(node_limit=100))
    assert sorted(made) == ["AntichainSearch", "block_bound", "lifetime_bound"]


@given(st.randoms(use_true_random=False))
def test_clique_is_pairwise_unsafe(rng: Random) -> None:
    problem = random_problem(rng, Safety.PAIRS, features=SOLVABLE)
    bound = clique_bound(problem)
    assert bound.name == "clique"
    assert bound.bytes <= heaviest_clique(problem)
    assert bound.bytes >= problem.size.max(initial=0)
    assert_witness(problem, bound)


def test_clique_finds_the_triangle() -> None:
    #   0 - 1
    #   | /      3 alone is the largest, but 0, 1 and 2 weigh more
    #   2    3
    problem = Problem([4, 4, 4, 9], unsafe_pairs=[(0, 1), (1, 2), (0, 2)])
    bound = clique_bound(problem)
    assert (bound.bytes, bound.witness.tolist()) == (12, [0, 1, 2])


@given(rng=st.randoms(use_true_random=False), safety=st.sampled_from(Safety))
def test_block_is_the_largest_end_of_one_block_alone(rng: Random, safety: Safety) -> None:
    problem = random_problem(rng, safety, features=SOLVABLE)
    chained = {tensor for chain in problem.contiguous for tensor in chain}
    blocks = [list(chain) for chain in problem.contiguous]
    blocks += [[t] for t in range(problem.tensor_count) if t not in chained]
    ends = []
    for block in blocks:
        before = [int(problem.size[block[:m]].sum()) for m in range(len(block))]
        for head in range(10_000):
            offsets = [head + skipped for skipped in before]
            if all(
                at % problem.alignment[t] == 0 and problem.pinned[t] in (-1, at)
                for t, at in zip(block, offsets, strict=True)
            ):
                ends.append(head + int(problem.size[block].sum()))
                break
    bound = block_bound(problem)
    assert (bound.name, bound.bytes) == ("block", max(ends, default=0))
    if blocks:
        assert sorted(bound.witness.tolist()) in [sorted(block) for block in blocks]


@pytest.mark.parametrize("safety", Safety)
def test_no_plan_lies_below_a_bound(safety: Safety) -> None:
    names = set()
    for seed in range(200):
        problem = random_problem(Random(seed), safety, (0, 14), features=SOLVABLE)
        bounds = bounds_of(problem)
        names |= {bound.name for bound in bounds}
        plans = [place(problem, order, fit) for order in ("size", "unsafe")
                 for fit in ("first", "best")]  # fmt: skip
        if (problem.pinned < 0).all():
            plans += [place_in_objects(problem), naive(problem, Budget())]
        for plan in plans:
            assert all(plan.peak >= bound.bytes for bound in bounds), f"seed {seed}"
    assert (
        names
        == {
            Safety.LIFETIMES: {"lifetime", "aligned", "block"},
            Safety.GRAPH: {"lifetime", "antichain", "aligned", "block"},
            Safety.PAIRS: {"clique", "aligned", "block"},
        }[safety]
    )


def test_bounds_of_nothing_are_zero() -> None:
    empty = Graph(op=[], stream=[], producer=[], consumers=[])
    for problem in (Problem([], [], []), Problem([], unsafe_pairs=[]), Problem([], graph=empty)):
        for bound in bounds_of(problem):
            assert (bound.bytes, bound.witness.tolist()) == (0, [])
    idle = Graph(op=["a", "b"], stream=[0, 1], producer=[], consumers=[])
    assert antichain_bound(Problem([], graph=idle)).bytes == 0
    assert antichain_bound(Problem([], graph=empty)).bytes == 0
