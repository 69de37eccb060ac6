"""What every exact planner owes: truthful answers within limits, and the greedy plan kept."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model
from scipy import optimize

from instances.synthetic import guillotine_packing, tight_capacity
from planners import Budget, Problem, Result, Safety, Status, _core, bounds_of, place, run
from planners.exact import plan_exactly
from planners.exact.branch_and_bound import components
from planners.exact.cp_sat import offset_model, solver
from planners.exact.cp_sat.cp_sat import cp_sat
from planners.exact.ilp import big_m, cbc
from planners.model.findings import Findings
from planners.referee.naive import find_violation
from planners.registry import get
from planners.testing.random_problems import random_problem
from tests.interrupts import heard_within, pressed_in_child
from tests.planners.exact.test_agreement import PLANNERS
from tests.planners.exact.weak_start import Given, worst_start
from tests.slow import in_parts

every_planner = pytest.mark.parametrize("planner", PLANNERS)


def answer(planner: str, problem: Problem, **limits: float) -> Result:
    return run(problem, get(planner), Budget(**limits))  # type: ignore[arg-type]


@every_planner
@pytest.mark.usefixtures("weakly_started")
@pytest.mark.parametrize(
    ("problem", "peak"),
    [
        (Problem([], [], []), 0),
        (Problem([0, 0], [0, 0], [1, 1], alignment=[4, 1]), 0),
        (Problem([0, 2], [0, 0], [1, 1], pinned={0: 7}), 7),
    ],
    ids=["nothing", "no bytes", "a pin of no bytes"],
)
def test_problems_with_next_to_nothing(planner: str, problem: Problem, peak: int) -> None:
    result = answer(planner, problem)
    assert (result.status, result.peak) == (Status.OPTIMAL, peak)


@every_planner
def test_names_the_bound_that_a_greedy_plan_meets(planner: str) -> None:
    result = answer(planner, Problem([3, 2, 2], [0, 0, 2], [2, 4, 4]))
    assert (result.status, result.certificate) == (Status.OPTIMAL, "lifetime")
    assert not result.statistics


@every_planner
def test_names_itself_if_no_bound_is_met(planner: str) -> None:
    """A ring of five tensors of 2 bytes: two at a time, and yet five cannot share two places."""
    problem = Problem([2] * 5, unsafe_pairs=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    assert max(bound.bytes for bound in bounds_of(problem)) == 4
    result = answer(planner, problem)
    assert (result.status, result.peak, result.certificate) == (Status.OPTIMAL, 6, planner)


@every_planner
def test_a_greedy_plan_that_fits_is_the_answer(planner: str, hard: Problem) -> None:
    problem = hard.with_capacity(place(hard).peak)
    result = answer(planner, problem)
    assert result.status is Status.FEASIBLE
    assert not result.statistics


@every_planner
@pytest.mark.parametrize("seconds", [0.0, 0.3])
@pytest.mark.parametrize("slack", [None, 0.0, 0.9])
def test_a_time_limit_proves_nothing(
    planner: str, seconds: float, slack: float | None, hard: Problem
) -> None:
    """``slack`` 0 asks for the bound itself; nobody knows whether that is possible."""
    bound = max(bound.bytes for bound in bounds_of(hard))
    problem = hard
    if slack is not None:
        problem = hard.with_capacity(int(bound + slack * (place(hard).peak - bound) / 2))
    result = answer(planner, problem, time_limit_seconds=seconds)
    expected = {Status.FEASIBLE, Status.NO_PLAN_FOUND} if slack is None else {Status.NO_PLAN_FOUND}
    assert result.status in expected
    assert result.reason
    assert result.lower_bound >= bound


@every_planner
@pytest.mark.usefixtures("weakly_started")
@pytest.mark.parametrize("nodes", [0, 1, 20])
@in_parts("seeds", range(12), first=3)
def test_a_node_limit_proves_nothing_wrong(planner: str, nodes: int, seeds: range) -> None:
    for seed in seeds:
        problem = random_problem(
            random.Random(seed),
            list(Safety)[seed % 3],
            9,
            features=frozenset({"alignment", "chains", "divisor", "zero"}),
        )
        best = run(problem, get("ilp-highs"))
        assert best.status is Status.OPTIMAL
        result = answer(planner, problem, node_limit=nodes)
        assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
        assert result.lower_bound <= best.lower_bound
        assert result.peak is not None
        assert result.peak >= best.lower_bound


@every_planner
@pytest.mark.parametrize("nodes", [0, 2, 200])
def test_no_bound_is_above_an_optimum_known_by_construction(
    planner: str, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full rectangle, cut into tensors, fits into its own height and into no less."""
    problem = guillotine_packing(120, seed=4)
    height = problem.origin["optimum"]
    bound = max(bounds_of(problem), key=lambda bound: bound.bytes)
    assert bound.bytes == height
    rng = random.Random(4)
    bad = place(problem, [rng.random() for _ in range(problem.tensor_count)])
    monkeypatch.setattr(plan_exactly, "warm_incumbent", lambda p, b, _: Given(p, b, bad, bound))
    # CP-SAT's first questions stay open.
    monkeypatch.setattr(sys.modules[cp_sat.__module__], "FIRST_DETERMINISTIC_TIME", 1e-6)
    monkeypatch.setattr(sys.modules[cp_sat.__module__], "FIRST_CONFLICTS", 0)
    result = answer(planner, problem, node_limit=nodes, time_limit_seconds=3.0)
    assert result.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert result.lower_bound == height


@every_planner
@pytest.mark.usefixtures("weakly_started")
def test_the_same_seed_gives_the_same_plan(planner: str) -> None:
    problem = random_problem(random.Random(3), Safety.LIFETIMES, 9, features=frozenset())
    one, other = (answer(planner, problem, node_limit=40, seed=5) for _ in range(2))
    assert one.plan is not None
    assert other.plan is not None
    assert one.plan.offsets.tolist() == other.plan.offsets.tolist()
    assert one.statistics == other.statistics


@every_planner
def test_a_model_too_large_leaves_the_greedy_plan(
    planner: str, hard: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(big_m, "MOST_PAIRS", 100)
    monkeypatch.setattr(offset_model, "MOST_PAIRS", 100)
    monkeypatch.setattr(components, "MOST_PAIRS_TO_COVER", 100)
    result = answer(planner, hard)
    assert result.status is Status.FEASIBLE
    assert "unsafe pairs" in result.reason
    assert "100" in result.reason
    assert result.peak is not None


@every_planner
@pytest.mark.usefixtures("weakly_started")
@pytest.mark.parametrize(("tensors", "size"), [(3, 1 << 59), (40, 1 << 53), (600, 10**16)])
def test_sizes_beyond_a_solver_leave_the_plan_there_is(
    planner: str, tensors: int, size: int
) -> None:
    rng = random.Random(tensors)
    start = [rng.randrange(2 * tensors) for _ in range(tensors)]
    sizes = [size // (1 + index % 9) + index % 7 for index in range(tensors)]
    problem = Problem(sizes, start, [step + 2 for step in start])
    result = answer(planner, problem, time_limit_seconds=2)
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE), result.reason
    assert result.plan is not None
    bound = max(bound.bytes for bound in bounds_of(problem))
    assert bound <= result.plan.peak
    assert result.lower_bound <= result.plan.peak


@cache
def huge_sizes(seed: int) -> tuple[Problem, Result]:
    """Return sizes of 14 digits without a divisor, and what CP-SAT says of them."""
    rng = random.Random(seed)
    problem = random_problem(rng, rng.choice(list(Safety)), 6, features=frozenset())
    size = np.array([int(size) * 10**13 + rng.randint(0, 9) for size in problem.size])
    problem = problem.select(range(problem.tensor_count), size=size)
    return problem, run(problem, get("cp-sat"))


@every_planner
@pytest.mark.usefixtures("weakly_started")
@in_parts("seeds", range(8), first=1)
def test_huge_sizes_without_a_divisor_claim_no_more_than_is_proven(
    planner: str, seeds: range
) -> None:
    for seed in seeds:
        problem, exact = huge_sizes(seed)
        assert exact.status is Status.OPTIMAL
        result = answer(planner, problem)
        assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
        assert result.lower_bound <= exact.lower_bound
        assert result.plan is not None
        assert find_violation(problem, result.plan) is None


def pressed_at_its_first_word(start: Callable[..., Any]) -> Callable[..., Any]:
    """Interrupt the wait for a program once the program has written."""

    def started(command: Sequence[str], **options: Any) -> Any:
        process = start(command, **options)

        def pressed(_seconds: float) -> None:
            while not os.fstat(options["stdout"]).st_size:
                assert process.poll() is None
                time.sleep(0.001)
            del process.wait
            raise KeyboardInterrupt

        process.wait = pressed
        return process

    return started


@pytest.mark.parametrize(
    ("planner", "module", "name", "pressed"),
    [
        ("branch-and-bound", _core.CanonicalSearch, "decide", heard_within),
        ("cp-sat", solver, "_solve", partial(pressed_in_child, deaf=False)),
        ("cp-sat", solver, "_solve", partial(pressed_in_child, deaf=True)),
        ("ilp-highs", optimize, "milp", partial(pressed_in_child, deaf=False)),
        ("ilp-cbc", cbc.child_process, "start", pressed_at_its_first_word),
    ],
    ids=["branch-and-bound", "cp-sat", "cp-sat answers", "ilp-highs", "ilp-cbc"],
)
def test_ctrl_c_keeps_the_best_plan(
    planner: str,
    module: object,
    name: str,
    pressed: Callable[..., Any],
    hard: Problem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solver, "GRACE_SECONDS", 60)
    monkeypatch.setattr(module, name, pressed(getattr(module, name)))
    result = answer(planner, hard, time_limit_seconds=60.0)
    assert result.status is Status.FEASIBLE
    assert (result.interrupted, result.reason) == (True, "interrupted")


@every_planner
@pytest.mark.parametrize("phase", ["start", "model"])
def test_ctrl_c_before_the_search(
    planner: str, phase: str, hard: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if phase == "start":
        monkeypatch.setattr(plan_exactly, "warm_incumbent", interrupted)
        with pytest.raises(KeyboardInterrupt):
            answer(planner, hard)
        return
    monkeypatch.setattr(offset_model, "clique_cover", interrupted)
    monkeypatch.setattr(big_m, "clique_cover", interrupted)
    monkeypatch.setattr(components, "clique_cover", interrupted)
    result = answer(planner, hard)
    assert result.status is Status.FEASIBLE
    assert result.interrupted


@pytest.mark.parametrize(
    ("planner", "module", "command"),
    [
        ("cp-sat", "ortools.sat.python", "pip install ortools"),
        ("ilp-highs", "scipy", "pip install scipy"),
        ("ilp-cbc", "pulp", "pip install 'pulp[cbc]'"),
    ],
)
def test_a_missing_package_is_named_with_its_command(
    planner: str, module: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = answer(planner, Problem([1], [0], [1]))
    assert result.status is Status.UNSUPPORTED
    assert command in result.reason


@pytest.mark.parametrize("solver", ["ilp-highs", "cp-sat"])
def test_a_solver_that_ignores_its_limit_is_ended(
    solver: str, monkeypatch: pytest.MonkeyPatch, hard: Problem
) -> None:
    monkeypatch.setattr(optimize, "milp", lambda *_, **__: time.sleep(600))
    monkeypatch.setattr(cp_model.CpSolver, "solve", lambda *_, **__: time.sleep(600))
    # Time enough to build the model where the machine does other work as well.
    result = answer(solver, hard, time_limit_seconds=5.0)
    assert result.status is Status.FEASIBLE
    assert "did not end in time and was killed" in result.reason


@pytest.mark.parametrize("solver", ["ilp-highs", "cp-sat"])
def test_a_solver_that_crashes_costs_no_greedy_plan(
    solver: str, monkeypatch: pytest.MonkeyPatch, hard: Problem
) -> None:
    def crash(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)  # SIGSEGV, without pytest's account of it

    monkeypatch.setattr(optimize, "milp", crash)
    monkeypatch.setattr(cp_model.CpSolver, "solve", crash)
    result = answer(solver, hard, time_limit_seconds=30.0)
    assert result.status is Status.FEASIBLE
    assert "ended by signal SIGUSR1" in result.reason


@every_planner
def test_better_plans_are_told_of_as_they_come(
    planner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = tight_capacity(30, seed=6)
    monkeypatch.setattr(plan_exactly, "warm_incumbent", worst_start)
    problem = Problem(tight.size, tight.start, tight.end)
    found = get(planner).info.build()(problem, Budget(time_limit_seconds=60).started())
    assert isinstance(found, Findings)
    seconds, peaks = zip(*found.incumbents, strict=True)
    assert list(seconds) == sorted(seconds)
    assert list(peaks) == sorted(set(peaks), reverse=True)
    # branch-and-bound's second plan is the best one.
    assert len(peaks) > 1 + (planner != "branch-and-bound")
    assert found.plan is not None
    assert peaks[-1] == found.plan.peak == tight.capacity


def test_a_plan_that_cp_sat_had_before_it_was_ended_is_kept(
    hard: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = cp_model.CpSolver.solve

    def crash(solver: cp_model.CpSolver, *rest: Any) -> Any:
        status = honest(solver, *rest)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            os.kill(os.getpid(), signal.SIGUSR1)
        return status

    monkeypatch.setattr(cp_model.CpSolver, "solve", crash)
    monkeypatch.setattr(plan_exactly, "warm_incumbent", worst_start)
    result = answer("cp-sat", hard, time_limit_seconds=30.0)
    assert "ended by signal SIGUSR1" in result.reason
    assert result.peak is not None
    assert result.peak < int(hard.size.sum())
