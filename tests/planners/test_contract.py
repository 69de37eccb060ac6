"""What every registered planner keeps to, whoever wrote it."""

from __future__ import annotations

import math
import random
from functools import partial

import pytest

from instances.synthetic import training_graph
from planners import read_problem, registry
from planners.greedy import portfolio
from planners.judged_run import run
from planners.model import bounds as bounds_module
from planners.model import budget as budget_module
from planners.model.bounds import Bound, bounds_of
from planners.model.budget import Budget
from planners.model.graph import Graph
from planners.model.plan import Result, Status
from planners.model.problem import Problem, Safety
from planners.referee.naive import find_violation
from tests.random_problems import random_problem
from tests.slow import one_by_one

NAMES = [info.name for info in registry.planners()]
# Beside `auto`: never worse than the best greedy plan that the time is enough for.
NEVER_WORSE = ["branch-and-bound", "cp-sat", "ilp-highs", "ilp-cbc"]
WITH_A_PLAN = (Status.OPTIMAL, Status.FEASIBLE)
PROBLEMS_OF_A_KIND = 25
# Planners that search answer these problems in milliseconds; the limit is for a bad day.
ENOUGH_SECONDS = 20.0

# Made anew in each test: a problem keeps what the core made of it, and a module lives long.
FIXED = {
    "no tensors": partial(Problem, size=[], start=[], end=[]),
    "one tensor": partial(Problem, size=[5], start=[0], end=[1]),
    "one tensor of no bytes": partial(Problem, size=[0], start=[0], end=[1]),
    "only tensors of no bytes": partial(Problem, size=[0, 0, 0], start=[0, 0, 1], end=[2, 1, 2]),
    "some of no bytes": partial(Problem, size=[0, 3, 0, 2], start=[0] * 4, end=[2] * 4),
    "touching lifetimes": partial(Problem, size=[4, 4, 4], start=[0, 1, 2], end=[1, 2, 3]),
    "large sizes": partial(Problem, size=[2**58, 2**58], start=[0, 0], end=[1, 1]),
    "a graph without tensors": partial(
        Problem, size=[], graph=Graph(op=["a"], stream=[0], producer=[], consumers=[])
    ),
    "two streams": partial(
        Problem,
        size=[4, 4],
        graph=Graph(op=["a", "b", "c"], stream=[0, 1, 0], producer=[0, 1], consumers=[[2], []]),
    ),
    "no unsafe pair": partial(Problem, size=[4, 6], unsafe_pairs=[]),
    "a capacity that fits": partial(Problem, size=[4, 6], start=[0, 0], end=[1, 1], capacity=10),
    "a capacity that does not": partial(Problem, size=[4, 6], start=[0, 0], end=[1, 1], capacity=9),
    "a capacity of nothing": partial(Problem, size=[], start=[], end=[], capacity=0),
    "a chain": partial(
        Problem, size=[4, 6, 2], start=[0, 0, 0], end=[1, 2, 3], contiguous=[(2, 0)]
    ),
    "alignment": partial(Problem, size=[3, 5], start=[0, 0], end=[1, 1], alignment=[8, 16]),
    "a pin": partial(Problem, size=[3, 5], start=[0, 0], end=[1, 1], pinned={0: 2}),
    "pins in conflict": partial(
        Problem, size=[3, 5], start=[0, 0], end=[1, 1], pinned={0: 0, 1: 2}
    ),
    "a gap": partial(Problem, size=[4, 4], start=[0, 1], end=[3, 2], gaps=[(0, 1, 2)]),
}


def answer(name: str, problem: Problem, seconds: float = ENOUGH_SECONDS, seed: int = 0) -> Result:
    budget = Budget(time_limit_seconds=seconds, seed=seed)
    return run(problem, registry.get(name), budget, bounds_of(problem))


def require_contract(problem: Problem, result: Result) -> None:
    """Hold an answer against everything that a planner promises, by the slow referee."""
    assert result.status is not Status.INVALID, result.reason
    assert result.planner in NAMES
    assert 0 <= result.seconds < math.inf
    assert 0 <= result.cpu_seconds < math.inf
    if result.status in WITH_A_PLAN:
        assert result.plan is not None
    else:
        assert result.reason
        assert "\n" not in result.reason
    if result.status is Status.UNSUPPORTED:
        assert result.plan is None
    if result.plan is None:
        return
    assert find_violation(problem, result.plan) is None
    for bound in bounds_of(problem):
        assert result.plan.peak >= bound.bytes
    assert result.plan.peak >= result.lower_bound
    assert result.lower_bound == 0 or result.certificate
    if result.status is Status.OPTIMAL:
        assert result.plan.peak == result.lower_bound
        assert result.certificate
    if problem.capacity is not None:
        assert (result.plan.peak <= problem.capacity) == (result.status in WITH_A_PLAN)


@pytest.mark.parametrize("case", FIXED)
@pytest.mark.parametrize("name", NAMES)
def test_small_cases(name: str, case: str) -> None:
    problem = FIXED[case]()
    require_contract(problem, answer(name, problem))


@pytest.mark.parametrize("safety", Safety)
@pytest.mark.parametrize("name", NAMES)
def test_random_problems(name: str, safety: Safety) -> None:
    for seed in range(PROBLEMS_OF_A_KIND):
        rng = random.Random(f"{safety} {seed}")
        problem = random_problem(rng, safety, (0, 7))
        require_contract(problem, answer(name, problem))


@pytest.mark.parametrize("safety", Safety)
@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_plan(name: str, safety: Safety) -> None:
    problem = random_problem(random.Random(f"again {safety}"), safety, 7)
    for seed in (0, 7):
        first, second = (answer(name, problem, seed=seed) for _ in range(2))
        assert first.status is second.status
        assert first.lower_bound == second.lower_bound
        if first.plan is None:
            assert second.plan is None
        else:
            assert second.plan is not None
            assert first.plan.offsets.tolist() == second.plan.offsets.tolist()


@pytest.mark.parametrize("safety", Safety)
@pytest.mark.parametrize("name", NAMES)
def test_no_time_gets_a_clear_answer(name: str, safety: Safety) -> None:
    problem = random_problem(random.Random(f"quick {safety}"), safety, 40)
    for seconds in (0.0, 1e-3):
        require_contract(problem, answer(name, problem, seconds))


class Clock:
    """A clock that slow bounds turn; each reading turns it a little."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 2e-5
        return self.now

    def slow_bound(self, _problem: Problem, seconds: float = math.inf) -> Bound:
        """Take all the time that is given, and prove nothing."""
        self.now += seconds if math.isfinite(seconds) else 0
        raise TimeoutError


@one_by_one("seconds", [0.2, 1.0], first=1)
@pytest.mark.parametrize("name", ["auto", "pressure", "homosize", *NEVER_WORSE])
def test_a_slow_bound_costs_no_plan(
    name: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in (budget_module, portfolio):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(bounds_module, "antichain_bound", clock.slow_bound)
    problem = training_graph(200, streams=2, chains=10, chain_length=8, seed=200)
    best = min(
        run(problem, chosen).peak or 0
        for chosen in registry.choose("greedy-*,many-objects-*")
        if chosen.info.name != name
    )
    # A planner that asks again and again reads the clock again and again, and so it ends.
    result = run(problem, registry.get(name), Budget(time_limit_seconds=seconds))
    require_contract(problem, result)
    assert result.peak is not None
    assert result.peak <= best or name in ("pressure", "homosize")


@one_by_one("seconds", [0.2, 1.0], first=1)
@one_by_one("instance", ["pangu-13b", "qwen2-moe-sharded"], first=1)
def test_the_largest_graphs_get_a_plan_in_a_second(instance: str, seconds: float) -> None:
    whole = read_problem(f"instances/{instance}.json.gz")
    _ = whole.core
    rows = [
        run(whole, chosen, Budget(time_limit_seconds=seconds))
        for chosen in registry.choose("many-objects-size-first,greedy-size-first")
    ]
    for name in ("auto", *NEVER_WORSE):
        budget = Budget(time_limit_seconds=seconds)
        result = run(whole.with_capacity(None), registry.get(name), budget)
        if result.peak is None:
            # A busy machine may take a fifth of a second away before anything begins.
            assert seconds == 0.2, result.reason
            continue
        assert result.status is Status.FEASIBLE, result.reason
        assert result.peak < whole.naive_bytes
        # What took no more than a tenth of the limit had its turn, however busy the machine.
        for row in rows:
            if row.peak is not None and row.seconds < seconds / 10:
                assert result.peak <= row.peak


@pytest.mark.parametrize("name", NAMES)
def test_who_fits_is_no_matter_of_opinion(name: str) -> None:
    for seed in range(PROBLEMS_OF_A_KIND):
        rng = random.Random(f"fits {seed}")
        problem = random_problem(rng, Safety.LIFETIMES, 6)
        statuses = {answer(other, problem).status for other in ("greedy-size-first", name)}
        assert not (Status.INFEASIBLE in statuses and statuses & set(WITH_A_PLAN))


def test_every_built_in_planner_is_described() -> None:
    for info in registry.planners():
        assert info.summary, info.name
        assert "\n" not in info.summary
