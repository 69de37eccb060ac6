"""Branch and bound answers as brute force does, and as CP-SAT where that is too slow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from instances.synthetic import tight_capacity
from planners import Budget, Problem, Result, Safety, Status, bounds_of, check, place, run
from planners.exact.branch_and_bound.branch_and_bound import FIRST_NODES, NAME, ORDERS, Resumable
from planners.exact.branch_and_bound.components import components_of
from planners.exact.common_unit import scale_blocks
from planners.referee.naive import find_violation
from planners.registry import get
from planners.testing.random_problems import FEATURES, SOLVABLE, random_problem
from tests.planners.exact.brute_force import optimal_peak
from tests.planners.exact.search_cases import RULES, varied_problem, varied_rules
from tests.slow import in_parts, one_by_one

PROBLEMS = 5_000
LONG_PROBLEMS = 100_000
NODE_LIMITS = (0, 1, 2, 5, 20, 100)
# A backstop against a search without end; without its rules a search comes near a tenth of it.
MOST_NODES = 50_000_000

Window = tuple[int, int, int, int]


def answer(problem: Problem, rules: Mapping[str, bool] | None = None, **limits: int) -> Result:
    return run(problem, get(NAME, **(rules or {})), Budget(**{"node_limit": MOST_NODES, **limits}))


def find_mistake(problem: Problem, result: Result, *, complete: bool = True) -> str | None:
    """Return what is wrong with an answer, by the referee and brute force alone."""
    capacity = problem.capacity
    if result.plan is None:
        # Only pins in conflict leave no plan at all.
        right = result.status is Status.INFEASIBLE and optimal_peak(problem) is None
        return None if right else "there is a plan"
    if violation := find_violation(problem, result.plan):
        return violation
    peak, bound = result.plan.peak, result.lower_bound
    if bound > peak:
        return "its bound is above its plan"
    # This proves every bound, and with it all that is optimal or infeasible.
    if (better := optimal_peak(problem, below=bound)) is not None:
        return f"its bound is above a plan of {better}"
    if (result.status is Status.OPTIMAL) != (
        bound == peak and (capacity is None or peak <= capacity)
    ):
        return "optimal means that bound and plan meet"
    if capacity is None:
        possible = {Status.OPTIMAL} if complete else {Status.OPTIMAL, Status.FEASIBLE}
    elif peak <= capacity:
        possible = {Status.OPTIMAL, Status.FEASIBLE}
    elif bound > capacity:
        possible = {Status.INFEASIBLE}
    else:
        possible = set() if complete else {Status.NO_PLAN_FOUND}
    return None if result.status in possible else f"one of {possible} is right"


def compare(seed: int, indices: range) -> Counter[object]:
    """Compare on many random problems; return how often what happened."""
    seen: Counter[object] = Counter()
    for index in indices:
        rng = random.Random(f"{seed}:{index}")
        problem = varied_problem(rng, rng.choice([(0, 9), (7, 9)]))
        rules = varied_rules(rng)
        result = answer(problem, rules, seed=index)
        where = f"seed {seed}, problem {index}, {rules}"
        wrong = find_mistake(problem, result)
        assert wrong is None, f"{where}: {wrong}, {result}"
        seen[result.status] += 1
        if result.statistics.get("nodes"):
            seen["searched"] += 1
            chained = any(sum(problem.size[list(c)] > 0) > 1 for c in problem.contiguous)
            seen["disjunctive" if chained else "canonical"] += 1
            for counter, value in result.statistics.items():
                if isinstance(value, int) and value > 0:
                    seen[counter] += 1
    return seen


@pytest.mark.usefixtures("worst_started")
@in_parts("indices", range(PROBLEMS), first=150)
def test_agrees_with_brute_force(indices: range) -> None:
    seen = compare(20_260_801, indices)
    # A test of the search that never searches tests nothing.
    problems = len(indices)
    assert seen["searched"] > problems / 2
    assert seen["canonical"] > problems / 10
    assert seen["disjunctive"] > problems / 10
    assert seen[Status.OPTIMAL] > problems / 2
    assert seen[Status.INFEASIBLE] > problems / 50
    assert seen[Status.FEASIBLE] > problems / 50
    for rule in ("by_section", "by_passed_over", "dominated", "identical", "raised", "splits"):
        assert seen[rule] > problems / 250, rule


@pytest.mark.long
@pytest.mark.usefixtures("worst_started")
def test_agrees_with_brute_force_on_a_hundred_thousand(fresh_seed: int) -> None:
    for first in range(0, LONG_PROBLEMS, PROBLEMS):
        # What a run that is cut off has shown so far counts as well.
        print(first, dict(compare(fresh_seed, range(first, first + PROBLEMS))), flush=True)


@pytest.mark.usefixtures("worst_started")
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("rule", RULES)
@in_parts("indices", range(150), first=30)
def test_a_rule_alone_is_right_and_so_are_all_others(
    rule: str, alone: bool, indices: range
) -> None:
    rules = {other: (other == rule) == alone for other in RULES}
    for index in indices:
        problem = varied_problem(random.Random(f"rule {rule} {index}"), (6, 9))
        wrong = find_mistake(problem, answer(problem, rules))
        assert wrong is None, f"problem {index}: {wrong}"


@pytest.mark.usefixtures("worst_started")
@in_parts("indices", range(300), first=60)
def test_no_node_limit_proves_anything_wrong(indices: range) -> None:
    seen: Counter[Status] = Counter()
    for index in indices:
        problem = varied_problem(random.Random(f"limit {index}"), (6, 9))
        for nodes in NODE_LIMITS:
            result = answer(problem, node_limit=nodes, seed=index)
            wrong = find_mistake(problem, result, complete=False)
            assert wrong is None, f"problem {index}, {nodes} nodes: {wrong}, {result}"
            assert int(result.statistics.get("nodes", 0)) <= nodes
            seen[result.status] += 1
    for status in (Status.OPTIMAL, Status.FEASIBLE, Status.INFEASIBLE, Status.NO_PLAN_FOUND):
        assert seen[status] > len(indices) / 30, status


@pytest.mark.usefixtures("worst_started")
def test_the_same_seed_and_node_limit_repeat_exactly() -> None:
    for index in range(60):
        problem = varied_problem(random.Random(f"again {index}"), (12, 40))
        for nodes in (30, 3000):
            one, other = (answer(problem, node_limit=nodes, seed=index) for _ in range(2))
            assert (one.status, one.lower_bound) == (other.status, other.lower_bound)
            assert one.statistics == other.statistics
            if one.plan is not None and other.plan is not None:
                assert one.plan.offsets.tolist() == other.plan.offsets.tolist()


def test_the_first_order_needs_its_first_turn_alone() -> None:
    """Lifetimes of up to 100,000 steps: counted in sections, they took more than four turns."""
    problem = tight_capacity(120, utilisation=0.98, steps=100_000, units=1024, seed=0)
    result = answer(problem, node_limit=FIRST_NODES)
    assert result.status is Status.OPTIMAL
    assert result.statistics["order"] == ", ".join(ORDERS[0])
    assert 120 < int(result.statistics["nodes"]) < FIRST_NODES


@pytest.mark.parametrize("factor", [3, 1000])
def test_scaled_sizes_take_the_same_nodes(factor: int) -> None:
    problem = tight_capacity(60, utilisation=0.95, steps=1000, units=256, seed=9)
    scaled = Problem(problem.size * factor, problem.start, problem.end)
    one = answer(problem.with_capacity(None), node_limit=20_000)
    other = answer(scaled, node_limit=20_000)
    assert one.statistics == other.statistics
    assert int(one.statistics["nodes"]) > 0


@pytest.mark.usefixtures("worst_started")
@one_by_one("proofs", [8, 30], first=1)
def test_cp_sat_confirms_what_does_not_fit(proofs: int) -> None:
    assert confirm_infeasible(20_260_802, proofs) == proofs


@pytest.mark.long
@pytest.mark.usefixtures("worst_started")
def test_cp_sat_confirms_what_does_not_fit_on_hundreds(fresh_seed: int) -> None:
    assert confirm_infeasible(fresh_seed, 400) == 400


def confirm_infeasible(seed: int, wanted: int) -> int:
    """Compare proofs that one byte less than the optimum is too little, above every bound."""
    proofs = index = 0
    while proofs < wanted:
        index += 1
        rng = random.Random(f"{seed}:{index}")
        # A search that proves more than the bounds is what needs a second opinion.
        features = FEATURES - {"capacity", "conflicts", "zero"}
        free = varied_problem(rng, (12, 25), features)
        best = answer(free, node_limit=20_000)
        if best.status is not Status.OPTIMAL or best.peak is None:
            continue
        if best.peak - 1 < max(bound.bytes for bound in bounds_of(free)):
            continue
        tight = free.with_capacity(best.peak - 1)
        where = f"seed {seed}, problem {index}"
        assert answer(tight).status is Status.INFEASIBLE, where
        second = run(tight, get("cp-sat"), Budget(time_limit_seconds=20.0))
        # CP-SAT may run out of time, but not find a plan.
        assert second.status in (Status.INFEASIBLE, Status.NO_PLAN_FOUND), where
        proofs += second.status is Status.INFEASIBLE
    return proofs


def windowed(
    rows: list[tuple[int, int, int]], windows: Mapping[int, Window], capacity: int | None = None
) -> Problem:
    """Return tensors of ``(start, end, size)``, some of which need but a window in some steps.

    ``windows`` has ``(first step, last step, low, high)``: in these steps a tensor needs its bytes
    [low, high) alone. It becomes a chain whose parts above and below the window have a gap there.
    """
    start: list[int] = []
    end: list[int] = []
    size: list[int] = []
    chains: list[list[int]] = []
    gaps: list[tuple[int, int, int]] = []
    for index, (first, last, bytes_) in enumerate(rows):
        begin, stop, low, high = windows.get(index, (first, first, 0, bytes_))
        chain = []
        for piece, needed in ((low, False), (high - low, True), (bytes_ - high, False)):
            if piece == 0:
                continue
            chain.append(len(size))
            if not needed:
                gaps.append((len(size), begin, stop))
            start.append(first)
            end.append(last)
            size.append(piece)
        if len(chain) > 1:
            chains.append(chain)
    return Problem(size, start, end, contiguous=chains, gaps=gaps, capacity=capacity)


@pytest.mark.usefixtures("worst_started")
@pytest.mark.parametrize("capacity", [None, 7])
def test_finds_the_window_that_minimalloc_misses(capacity: int | None) -> None:
    """In steps 5 and 6 tensor 0 needs its highest byte alone, and 2 fits under that.

    ::

        7 |  11111111111111
        4 |        0000000000
        3 |        0000    00     steps 0 to 8 to the right
        1 |        000022  00
        0 +------------------
    """
    rows = [(3, 8, 4), (0, 7, 3), (5, 6, 1)]
    problem = windowed(rows, {0: (5, 7, 3, 4)}, capacity)
    result = answer(problem)
    assert result.peak is not None
    assert result.peak <= 7
    assert find_mistake(problem, result) is None


@pytest.mark.usefixtures("worst_started")
def test_random_windows() -> None:
    rng = random.Random(8)
    for index in range(60):
        rows, windows = [], {}
        for tensor in range(rng.randint(3, 5)):
            first = rng.randrange(8)
            last, size = first + rng.randint(1, 8), rng.randint(1, 8)
            rows.append((first, last, size))
            if last - first > 2 and size > 1 and rng.random() < 0.7:
                begin, low = rng.randrange(first + 1, last - 1), rng.randrange(size)
                windows[tensor] = (
                    begin,
                    rng.randint(begin + 1, last - 1),
                    low,
                    rng.randint(low + 1, size),
                )
        problem = windowed(rows, windows)
        for capacity in (None, optimal_peak(problem), max(size for *_, size in rows)):
            asked = problem.with_capacity(capacity)
            wrong = find_mistake(asked, answer(asked))
            assert wrong is None, f"problem {index}, capacity {capacity}: {wrong}"


@pytest.mark.usefixtures("worst_started")
def test_parts_of_every_kind_stand_side_by_side() -> None:
    for index in range(40):
        rng = random.Random(f"parts {index}")
        features = FEATURES - {"capacity", "conflicts", "divisor"}
        halves = [varied_problem(rng, (3, 6), features, Safety.LIFETIMES) for _ in range(2)]
        problem = side_by_side(*halves)
        best = [answer(half) for half in halves]
        result = answer(problem)
        assert result.status is Status.OPTIMAL
        assert result.peak == max(half.peak or 0 for half in best)
        parts = [len(components_of(half, scale_blocks(half), Budget())) for half in halves]
        assert result.statistics["parts"] == sum(parts)


def side_by_side(one: Problem, other: Problem) -> Problem:
    """Return both problems as one, the other after the end of the first."""
    shift = 1 + int(one.end.max(initial=0)) - int(other.start.min(initial=0))
    tensors = one.tensor_count
    pins = [*one.pinned.tolist(), *other.pinned.tolist()]
    return Problem(
        [*one.size, *other.size],
        [*one.start, *(other.start + shift)],
        [*one.end, *(other.end + shift)],
        alignment=[*one.alignment, *other.alignment],
        contiguous=[
            *one.contiguous,
            *([tensor + tensors for tensor in chain] for chain in other.contiguous),
        ],
        pinned={tensor: pin for tensor, pin in enumerate(pins) if pin >= 0},
        gaps=[*one.gaps.tolist(), *((t + tensors, a + shift, b + shift) for t, a, b in other.gaps)],
    )


@pytest.mark.usefixtures("worst_started")
@pytest.mark.parametrize("unit", [1, 1 << 20, 1 << 40])
@pytest.mark.parametrize("alignment", [1, 4])
def test_a_tensor_too_large_for_the_hole_of_a_chain_is_refused_by_shape(
    unit: int, alignment: int
) -> None:
    """Tensor 3 does not fit between 0 and 2, by a byte or so; no search may move it up to see that.

    ::

        |  2 2 2
        |  . 1 1 .   3 is unsafe with 0 and 2 only
        |  0 0 0
    """
    sizes = [unit + 1, 2 * unit + 1, 3 * unit + 1, 2 * unit + 2]
    problem = Problem(
        sizes,
        unsafe_pairs=[(0, 3), (2, 3), (0, 2)],
        contiguous=[(0, 1, 2)],
        alignment=[1, 1, 1, alignment],
    )
    result = answer(problem, node_limit=10_000)
    assert (result.status, result.peak) == (Status.OPTIMAL, 8 * unit + 5)


RING = Problem([2] * 5, unsafe_pairs=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
TURNS, NODES = 40, 25


@pytest.mark.parametrize("safety", Safety)
def test_turns_end_in_the_optimum(safety: Safety) -> None:
    for seed in range(40):
        problem = random_problem(
            random.Random(f"resumable {safety} {seed}"), safety, (1, 6), features=SOLVABLE
        )
        search, best, bound = Resumable(problem), place(problem, "source"), 0
        for _ in range(TURNS):
            answer = search(problem, Budget(node_limit=NODES).started(), best)
            assert answer.statistics.get("nodes", 0) <= NODES
            assert answer.plan is not None
            check(problem, answer.plan)
            assert answer.plan.peak <= best.peak
            # What one turn proved is not forgotten in the next.
            assert answer.lower_bound >= bound
            best, bound = answer.plan, answer.lower_bound
            if best.peak == bound:
                break
        assert (best.peak, bound) == (optimal_peak(problem),) * 2


def test_a_better_plan_from_elsewhere_is_taken_over() -> None:
    worse, best = place(RING, [4.0, 3.0, 2.0, 1.0, 0.0]), place(RING)
    search = Resumable(RING)
    search(RING, Budget(node_limit=1).started(), worse)
    answer = search(RING, Budget(node_limit=100).started(), best)
    assert answer.plan is not None
    assert answer.plan.peak == answer.lower_bound == best.peak


def test_another_problem_is_searched_afresh() -> None:
    search = Resumable(RING)
    search(RING, Budget(node_limit=1).started(), place(RING))
    other = Problem([3, 2], [0, 0], [1, 1])
    answer = search(other, Budget().started(), None)
    assert answer.plan is not None
    assert answer.plan.peak == answer.lower_bound == 5
