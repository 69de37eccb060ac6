"""Every known optimum again, by bounds and exact search, and the planners that traps catch."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from instances.synthetic import (
    best_fit_trap,
    chained_packing,
    data_parallel_graph,
    first_fit_trap,
    guillotine_packing,
    multi_stream_packing,
    neighbour_ring,
    non_guillotine_packing,
    random_lifetimes,
    scaling_family,
    size_order_trap,
    tight_capacity,
    training_graph,
    training_trace,
)
from instances.synthetic.family import UNIT_BYTES
from instances.synthetic.scaling_family import LEAST_TENSORS
from planners import Budget, InstanceError, Plan, Problem, Status, check, get, place, run
from planners.model.bounds import antichain_bound, lifetime_bound
from tests.planners.exact.brute_force import optimal_peak

SEEDS = range(25)


def require_perfect(problem: Problem, steps: int, units: int) -> None:
    """A perfect packing fills time x memory: no step needs less than its height."""
    area = problem.size * (problem.end - problem.start)
    assert area.sum() == steps * units * UNIT_BYTES
    assert lifetime_bound(problem).bytes == units * UNIT_BYTES == problem.origin["optimum"]


@pytest.mark.parametrize(("tensors", "steps", "units"), [(1, 1, 1), (40, 7, 6), (90, 64, 900)])
@pytest.mark.parametrize("seed", SEEDS)
def test_guillotine_packings_are_perfect(tensors: int, steps: int, units: int, seed: int) -> None:
    problem, _ = with_plan(guillotine_packing, tensors, steps=steps, units=units, seed=seed)
    assert problem.tensor_count == tensors
    require_perfect(problem, steps, units)


@pytest.mark.parametrize(("pinwheels", "steps", "units"), [(1, 3, 3), (6, 60, 70), (40, 512, 4096)])
@pytest.mark.parametrize("seed", SEEDS)
def test_pinwheels_are_perfect_and_nothing_cuts_them(
    pinwheels: int, steps: int, units: int, seed: int
) -> None:
    problem, offset = with_plan(
        non_guillotine_packing, pinwheels, steps=steps, units=units, seed=seed
    )
    assert problem.tensor_count == 4 * pinwheels + 1
    require_perfect(problem, steps, units)
    assert not is_cut(problem.start, problem.end)
    assert not is_cut(offset, offset + problem.size)


def is_cut(low: np.ndarray, high: np.ndarray) -> bool:
    """Whether a straight line from edge to edge crosses no rectangle."""
    inside = set(low.tolist()) - {int(low.min())}
    return any(not ((low < line) & (line < high)).any() for line in inside)


def test_a_guillotine_packing_is_cut_where_pinwheels_are_not() -> None:
    problem, offset = with_plan(guillotine_packing, 12, steps=60, units=70)
    assert is_cut(problem.start, problem.end) or is_cut(offset, offset + problem.size)


SMALL: dict[str, Callable[[int], Problem]] = {
    "guillotine": lambda seed: guillotine_packing(8, steps=9, units=11, seed=seed),
    "pinwheel": lambda seed: non_guillotine_packing(1, steps=9, units=11, seed=seed),
    "tight": lambda seed: tight_capacity(9, utilisation=0.8, steps=9, units=11, seed=seed),
    "chained": lambda seed: chained_packing(8, chains=1, steps=4, units=11, seed=seed),
    "streams": lambda seed: multi_stream_packing(8, regions=4, steps=9, units=11, seed=seed),
    "ring": lambda seed: neighbour_ring(2, seed=seed),
}


@pytest.mark.parametrize("family", SMALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_brute_force_finds_the_known_optimum(family: str, seed: int) -> None:
    problem = SMALL[family](seed).with_capacity(None)
    assert optimal_peak(problem) == problem.origin["optimum"]


@pytest.mark.parametrize("utilisation", [0.7, 0.95, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_tight_capacities_are_filled_as_far_as_asked_for(utilisation: float, seed: int) -> None:
    problem, _ = with_plan(
        tight_capacity, 120, utilisation=utilisation, steps=64, units=512, seed=seed
    )
    assert problem.capacity is not None
    assert problem.capacity == lifetime_bound(problem).bytes == problem.origin["optimum"]
    filled = (problem.size * (problem.end - problem.start)).sum() / (problem.capacity * 64)
    assert utilisation <= filled < utilisation + 0.02


@pytest.mark.parametrize("pairs", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("seed", range(3))
def test_a_ring_misses_its_capacity_by_one_unit(pairs: int, seed: int) -> None:
    drawing = inspect.unwrap(neighbour_ring)(pairs, seed=seed)
    problem = neighbour_ring(pairs, seed=seed)
    plan = Plan.of(problem, drawing.offset)
    check(problem.with_capacity(None), plan)
    assert plan.peak == problem.origin["optimum"]
    assert problem.tensor_count == 4 * pairs
    assert lifetime_bound(problem).bytes == problem.capacity == 2 * pairs * UNIT_BYTES
    assert problem.origin["optimum"] == problem.capacity + UNIT_BYTES
    for planner in ("branch-and-bound", "cp-sat"):
        result = run(problem, get(planner), Budget(time_limit_seconds=60))
        assert result.status is Status.INFEASIBLE, planner


@pytest.mark.parametrize(("tensors", "regions"), [(1, 1), (30, 1), (60, 7), (200, 25)])
@pytest.mark.parametrize("seed", SEEDS)
def test_streams_have_an_antichain_as_high_as_the_known_plan(
    tensors: int, regions: int, seed: int
) -> None:
    problem, _ = with_plan(
        multi_stream_packing, tensors, regions=regions, steps=90, units=300, seed=seed
    )
    assert problem.tensor_count == tensors
    assert antichain_bound(problem).bytes == problem.origin["optimum"]


@pytest.mark.parametrize("seed", SEEDS)
def test_regions_wait_only_for_those_whose_addresses_or_stream_they_take_over(seed: int) -> None:
    """With a tensor a region: free, make it, free it, make, and from there the arcs lead on."""
    problem, offset = with_plan(
        multi_stream_packing, 25, regions=25, steps=90, units=300, seed=seed
    )
    graph, top = problem.graph, offset + problem.size
    assert graph is not None
    following = {
        node: after
        for stream in set(graph.stream.tolist())
        for node, after in pairwise(np.flatnonzero(graph.stream == stream).tolist())
    }
    maker = {node: tensor for tensor, node in enumerate(graph.producer.tolist())}
    reader = {following[int(graph.consumers_of(tensor)[0])]: tensor for tensor in range(25)}
    assert len(graph.control)
    for last, first in graph.control.tolist():
        earlier, later = reader[last], maker[following[first]]
        share = offset[earlier] < top[later] and offset[later] < top[earlier]
        assert share or graph.stream[last] == graph.stream[first]


def test_the_global_order_of_streams_hides_the_optimum() -> None:
    problems = [multi_stream_packing(200, regions=25, seed=seed) for seed in SEEDS]
    hidden = [lifetime_bound(p).bytes < 0.9 * int(p.origin["optimum"]) for p in problems]
    assert sum(hidden) > len(hidden) / 2
    assert min(problem.stream_count for problem in problems) > 2


@pytest.mark.parametrize("seed", SEEDS)
def test_chains_touch_in_the_known_plan(seed: int) -> None:
    problem, offset = with_plan(
        chained_packing, 60, chains=6, chain_length=3, steps=64, units=512, seed=seed
    )
    require_perfect(problem, 64, 512)
    assert len(problem.contiguous) == 6
    for chain in problem.contiguous:
        assert 2 <= len(chain) <= 3
        for lower, upper in pairwise(chain):
            assert offset[upper] == offset[lower] + problem.size[lower]
            assert problem.start[lower] < problem.end[upper]
            assert problem.start[upper] < problem.end[lower]


@pytest.mark.parametrize("tensors", [LEAST_TENSORS, 100, 147, 148, 149, 1000, 5000])
@pytest.mark.parametrize("seed", range(5))
def test_the_scaling_family_has_any_size_and_one_optimum(tensors: int, seed: int) -> None:
    problem, _ = with_plan(scaling_family, tensors, seed=seed)
    assert problem.tensor_count == tensors
    assert lifetime_bound(problem).bytes == problem.origin["optimum"] == 4 << 30


@pytest.mark.long
def test_the_scaling_family_reaches_a_million() -> None:
    problem, _ = with_plan(scaling_family, 1_000_000, seed=1)
    assert lifetime_bound(problem).bytes == 4 << 30


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: guillotine_packing(0), r"parameter tensors: 1 to \d+ is needed, found 0"),
        (lambda: guillotine_packing(7, steps=2, units=3), "at most one a cell .* 6, .*found 7"),
        (lambda: guillotine_packing(7, steps=0), r"parameter steps: 1 to 1\d+ is needed, found 0"),
        (lambda: guillotine_packing(7, units=1 << 80), "parameter units: 1 to 1\\d+ is needed"),
        (lambda: size_order_trap(1, units=1 << 80), "parameter units: 4 to 1\\d+ is needed"),
        (lambda: non_guillotine_packing(1, units=2), "parameter units: 3 to 1\\d+ is needed"),
        (lambda: non_guillotine_packing(9, steps=9, units=9), "had room for .*, found 9"),
        (lambda: tight_capacity(9, utilisation=1.1), "utilisation: 0 to 1 is needed, found 1.1"),
        (lambda: tight_capacity(9, utilisation=math.nan), "utilisation: 0 to 1 .* found nan"),
        (lambda: neighbour_ring(1), r"parameter pairs: 2 to \d+ is needed, found 1"),
        (lambda: multi_stream_packing(4, regions=5), "regions: 1 to 4 is needed, found 5"),
        (lambda: chained_packing(9, chains=9), "were found, 9 are needed"),
        (lambda: chained_packing(9, chain_length=1), r"chain_length: 2 to \d+ is needed"),
        (lambda: scaling_family(99, seed=-1), r"seed: 0 to \d+ is needed, found -1"),
        (lambda: training_graph(1), "tensors: 2 to 10000000 is needed, found 1"),
        (lambda: training_graph(20, streams=0), r"streams: 1 to \d+ is needed, found 0"),
        (lambda: training_graph(20, chains=3), "chains: 0 to 2 is needed, found 3"),
        (lambda: data_parallel_graph(0), r"layers: 1 to \d+ is needed, found 0"),
        (lambda: data_parallel_graph(1, branches=0), r"branches: 1 to \d+ is needed, found 0"),
        (lambda: data_parallel_graph(1, bucket_layers=0), r"bucket_layers: 1 to \d+ is needed"),
        (lambda: training_trace(50, layers=-1), r"layers: 1 to \d+ is needed, found -1"),
        (lambda: random_lifetimes(-1), "tensors: 0 to 10000000 is needed, found -1"),
        (lambda: scaling_family(98), "tensors: 99 to 10000000 is needed, found 98"),
        (
            lambda: guillotine_packing(10**9),
            "family guillotine-packing: parameter tensors: 1 to 10",
        ),
        (lambda: training_trace(9, layers=10**12), "family training-trace: parameter layers: 1 to"),
        (lambda: neighbour_ring(10**9), "family neighbour-ring: parameter pairs: 2 to 10000000"),
        (lambda: size_order_trap(10**9), "parameter copies: 1 to 10000000 is needed, found 10"),
        (lambda: data_parallel_graph(10**6, branches=9), "branches: 1 to 3 is needed, found 9"),
        (lambda: multi_stream_packing(10**6, regions=2000), "regions: 1 to 1000 is needed"),
        (lambda: training_graph(9, streams=10**7), "streams: 1 to 1048576 is needed"),
        (lambda: random_lifetimes(9, seed=1 << 63), "seed: -9223372036854775807 to"),
        (lambda: scaling_family(1e4), "parameter tensors: a whole number .* found 10000.0"),
    ],
)
def test_refuses_impossible_parameters(make: Callable[[], Problem], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        make()


def test_layers_that_no_tensor_reaches_take_no_time() -> None:
    assert training_trace(9, layers=10_000_000).tensor_count == 9


def test_seeds_decide_and_nothing_else() -> None:
    first, again = guillotine_packing(50, seed=3), guillotine_packing(50, seed=3)
    assert first.size.tolist() == again.size.tolist()
    assert first.size.tolist() != guillotine_packing(50, seed=4).size.tolist()


def test_tensors_that_start_together_do_not_tell_their_places() -> None:
    problem, offset = with_plan(guillotine_packing, 400, steps=16)
    together = offset[problem.start == 0]
    assert len(together) > 10
    assert sorted(together.tolist()) != together.tolist()


def with_plan(
    family: Callable[..., Problem], *size: int, **options: float
) -> tuple[Problem, np.ndarray]:
    """Return a problem and the offsets of its known plan, which is valid and has the optimum."""
    problem = family(*size, **options)
    offset = inspect.unwrap(family)(*size, **options).offset
    plan = Plan.of(problem, offset)
    check(problem, plan)
    assert plan.peak == problem.origin["optimum"]
    return problem, offset


def with_optimum(trap: Callable[..., Problem], *size: int, **options: int) -> tuple[Problem, int]:
    """Return a trap and its optimum in units: the peak of the known plan and the live peak."""
    problem = with_plan(trap, *size, **options)[0]
    optimum = int(problem.origin["optimum"])
    assert optimum == lifetime_bound(problem).bytes
    return problem, optimum // UNIT_BYTES


def units(problem: Problem, order: str, fit: str) -> int:
    return place(problem, order, fit).peak // UNIT_BYTES


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6])
def test_both_fits_fall_into_the_first_fit_trap(rounds: int) -> None:
    problem, optimum = with_optimum(first_fit_trap, rounds)
    half = 2 ** (2 * rounds - 1)
    assert optimum == 2 * half
    assert problem.tensor_count == 3 * half - half // 2**rounds
    trapped = 2 * half + rounds * half - 2**rounds + 1
    assert units(problem, "source", "first") == trapped
    assert units(problem, "source", "best") == trapped


def test_the_first_fit_trap_grows_without_end() -> None:
    ratios = []
    for rounds in (2, 4, 6):
        problem = first_fit_trap(rounds)
        ratios.append(place(problem, "source", "first").peak / int(problem.origin["optimum"]))
    assert ratios[0] < ratios[1] < ratios[2]
    assert ratios[2] > 3.9


@pytest.mark.parametrize("rounds", [2, 3, 10, 40, 100])
def test_best_fit_alone_falls_into_its_trap(rounds: int) -> None:
    problem, optimum = with_optimum(best_fit_trap, rounds)
    width = rounds**2
    assert optimum == 2 * width + 3 * rounds - 2
    assert problem.tensor_count == 3 * rounds + 1
    trapped = (rounds + 1) * width + rounds * (rounds + 1) // 2
    assert units(problem, "source", "best") == trapped
    assert units(problem, "source", "first") < 2 * optimum


@pytest.mark.parametrize(("copies", "least"), [(1, 4), (1, 4096), (7, 100)])
def test_both_fits_fall_into_the_size_order_trap(copies: int, least: int) -> None:
    problem, optimum = with_optimum(size_order_trap, copies, units=least)
    assert optimum == 2 * least + 4
    assert units(problem, "size", "first") == units(problem, "size", "best") == 3 * least + 4
    assert units(problem, "source", "first") == optimum


def test_brute_force_agrees_where_it_can() -> None:
    for problem in (first_fit_trap(1), best_fit_trap(2), size_order_trap(2)):
        assert optimal_peak(problem) == problem.origin["optimum"]


@pytest.mark.parametrize(
    ("trap", "size"),
    [(first_fit_trap, 0), (first_fit_trap, 9), (best_fit_trap, 1), (size_order_trap, 0)],
)
def test_a_trap_of_no_size_is_refused(trap: object, size: int) -> None:
    assert callable(trap)
    with pytest.raises(InstanceError, match=rf"(rounds|copies): .* needed, found {size}"):
        trap(size)
