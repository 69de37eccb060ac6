"""The engine in the core against the published listings, and the paper's own examples."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from planners import Plan, Problem, Safety, place, place_in_objects
from planners.greedy.place import sort_keys
from planners.greedy.sort_keys import ORDERS, block_order
from planners.testing.random_problems import random_problem
from tests import definitions
from tests.planners.greedy import paper_listing
from tests.slow import in_parts

pytestmark = pytest.mark.core

Place = Callable[..., Plan]
ALGORITHMS: dict[str, tuple[Place, Callable[..., paper_listing.Offsets]]] = {
    "single object": (place, paper_listing.single_object),
    "many objects": (place_in_objects, paper_listing.many_objects),
}


def sorted_blocks(problem: Problem, order: str) -> list[list[int]]:
    blocks = problem.blocks
    sequence = block_order(blocks, sort_keys(problem, order)).tolist()
    return [blocks.members[blocks.indptr[b] : blocks.indptr[b + 1]].tolist() for b in sequence]


def assert_as_listed(problem: Problem, what: object) -> None:
    unsafe = definitions.unsafe(problem)
    size = problem.size.tolist()
    for order in ORDERS:
        blocks = sorted_blocks(problem, order)
        for name, (engine, listing) in ALGORITHMS.items():
            for fit in paper_listing.FITTERS:
                for rule in ("paper", "exact"):
                    expected = listing(blocks, size, unsafe, fit, rule)
                    found = engine(problem, order, fit, chain_rule=rule).offsets.tolist()
                    assert found == [expected[t] for t in range(len(size))], (
                        f"{what}: {name}, {order}, {fit}, {rule}"
                    )


def draw_as_in_paper(rng: Random, safety: Safety, max_tensors: int) -> Problem:
    """Return a problem of the paper's model: nothing but safety and chains, every size positive."""
    return random_problem(rng, safety, (0, max_tensors), features=frozenset({"chains", "gaps"}))


@pytest.mark.parametrize("safety", Safety)
@in_parts("seeds", range(250), first=50)
def test_engine_is_the_listing_on_seeded_problems(safety: Safety, seeds: range) -> None:
    for seed in seeds:
        assert_as_listed(draw_as_in_paper(Random(seed), safety, 14), f"seed {seed}")


@pytest.mark.parametrize("safety", Safety)
def test_engine_is_the_listing_on_larger_problems(safety: Safety) -> None:
    for seed in range(4):
        assert_as_listed(draw_as_in_paper(Random(seed), safety, 60), f"seed {seed}")


@pytest.mark.long
@pytest.mark.parametrize("safety", Safety)
def test_engine_is_the_listing_on_many_problems(safety: Safety, fresh_seed: int) -> None:
    rng = Random(fresh_seed)
    for count in range(20_000):
        assert_as_listed(
            draw_as_in_paper(rng, safety, rng.choice([5, 10, 25])), (fresh_seed, count)
        )


# Appendix E. Lifetimes there are closed: A [0, 1], B [3, 4], C [1, 2], D [4, 5], E [2, 4].
#
#   Single Object                     Many Objects
#   1920 +---------------+            1664 +---------------+
#        |     E E E     | 1664            | C C     D D   | second object
#   1664 +---------------+            1024 +---------------+
#        | C C           |                 | A A E E E     |
#   1024 | A A     D D   | 768        768  | A A   B B     | first object
#        | A A   B B     |                 |               |
#      0 +---------------+               0 +---------------+
TOY_SIZE = [1024, 768, 640, 512, 256]
TOY_START = [0, 3, 1, 4, 2]
TOY_END = [2, 5, 3, 6, 5]
TOY_UNSAFE = [(0, 2), (1, 3), (1, 4), (2, 4), (3, 4)]


@pytest.mark.parametrize("fit", paper_listing.FITTERS)
@pytest.mark.parametrize("given_as", ["lifetimes", "pairs"])
def test_toy_of_appendix_e(fit: str, given_as: str) -> None:
    if given_as == "lifetimes":
        problem = Problem(TOY_SIZE, TOY_START, TOY_END)
    else:
        problem = Problem(TOY_SIZE, unsafe_pairs=TOY_UNSAFE)
    assert definitions.unsafe(problem) == set(TOY_UNSAFE)
    single = place(problem, "size", fit)
    assert (single.offsets.tolist(), single.peak) == ([0, 0, 1024, 768, 1664], 1920)
    many = place_in_objects(problem, "size", fit)
    assert (many.offsets.tolist(), many.peak) == ([0, 0, 1024, 1024, 768], 1664)


def test_figure_6_forbids_seven_starts() -> None:
    #           0         10   15 18
    #  placed   |    A    | B | C|
    #  new          |   D    |  E  |  F  |     E may not lie on B: D starts at 7 or above
    a, b, c, d, e, f = range(6)
    problem = Problem([10, 5, 3, 8, 6, 6], unsafe_pairs=[(e, b)], contiguous=[(a, b, c), (d, e, f)])
    listed = paper_listing.avoid(
        (d, e, f),
        paper_listing.MemoryObject(0, 18, [(a, b, c)]),
        problem.size.tolist(),
        {a: 0, b: 10, c: 15},
        {(b, e)},
    )
    assert listed == [(0, 7)]
    for rule in ("paper", "exact"):
        plan = place(problem, [0, 0, 0, 1, 1, 1], "first", chain_rule=rule)
        assert plan.offsets.tolist() == [0, 10, 15, 7, 15, 21]
        assert plan.peak == 27
        objects = place_in_objects(problem, [0, 0, 0, 1, 1, 1], chain_rule=rule)
        assert objects.offsets.tolist() == [0, 10, 15, 18, 26, 32]


@pytest.mark.parametrize(("rule", "head"), [("exact", 0), ("paper", 17)])
def test_published_fit_passes_over_free_starts(rule: str, head: int) -> None:
    #           0                   20   25
    #  placed   |         Q         | P |
    #  forbidden       7         17         starts of D, by E and P
    #
    #  The published Fit asks that D, 8 bytes, ends by the forbidden start 7: it does not.
    q, p, d, e = range(4)
    problem = Problem([20, 5, 8, 6], unsafe_pairs=[(e, p)], contiguous=[(q, p), (d, e)])
    plan = place(problem, [0, 0, 1, 1], chain_rule=rule)
    assert plan.offsets.tolist() == [0, 20, head, head + 8]


def test_the_gap_at_the_end_of_an_object_ends_there() -> None:
    # The published Fit measures the last gap of an object up to the object's end, whatever lies
    # beyond: starts 2 and 3 are free, and 2 + 3 bytes of D end before 10.
    #
    #            0   2             10
    #  object 0  |C C . . . . . . .|B B B B B ...|  object 1
    #                |  D  |    E    |              D, E: 3 and 4 bytes; E is unsafe with B
    size, unsafe = [10, 10, 2, 3, 4], [(0, 1), (1, 4), (2, 3)]
    problem = Problem(size, unsafe_pairs=unsafe, contiguous=[(3, 4)])
    lifetimes = Problem(
        size, [0, 0, 1, 1, 3], [1, 4, 2, 2, 4], gaps=[(1, 1, 3)], contiguous=[(3, 4)]
    )
    assert definitions.unsafe(lifetimes) == set(unsafe)
    for same in (problem, lifetimes):
        for rule in ("paper", "exact"):
            plan = place_in_objects(same, [0, 1, 2, 3, 3], chain_rule=rule)
            assert plan.offsets.tolist()[3:] == [2, 5]
