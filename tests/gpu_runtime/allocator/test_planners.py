"""Every planner either has its plan served, or training goes on without one and says why."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from planners import Plan, Problem, Result, registry
from planners.model.budget import Budget
from planners.model.plan import feasible, no_plan_found
from planners.registry import UnsupportedProblemError
from tests.gpu_runtime.allocator.synthetic_training import (
    SETTLED_STEPS,
    Life,
    Program,
    Request,
    Training,
    served,
)

NAMES = [info.name for info in registry.planners()]
PlannerFunction = Callable[[Problem, Budget], Plan | Result]


def small_program(wrapping: bool) -> Program:
    rng = Random(5)
    program = [
        Request(rng.randint(1, 5000), 0, Life.WITHIN, rng.randint(k + 1, 10)) for k in range(10)
    ]
    if wrapping:
        # Two with a gap, one that is freed right before its successor, and two without a place.
        for index, end in ((3, 1), (7, 4), (5, 5), (4, 9)):
            program[index] = Request(program[index].size, 0, Life.NEXT, end)
        program[8] = Request(100, 0, Life.KEPT)
    return program


@pytest.fixture
def own(request: pytest.FixtureRequest, own_registry: None) -> Callable[[PlannerFunction], str]:  # noqa: ARG001
    """Register a planner for one test."""
    name = "own-planner"

    def add(plan: PlannerFunction) -> str:
        registry.register(name, summary=request.node.name)(plan)
        return name

    return add


def check_unplanned(training: Training, program: Program, reason: str) -> None:
    """The next step ends with one warning, here; training goes on and nothing is lost."""
    with pytest.warns(RuntimeWarning) as caught:
        training.run(program, 2)
    (warning,) = caught
    assert str(warning.message).startswith("training goes on without a new plan: ")
    assert reason in str(warning.message)
    assert warning.filename == training.step.__code__.co_filename  # the line of the `with`
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training.run(program, 3)
    report = training.memory.report()
    assert report.status == "unplanned"
    assert reason in report.reason
    assert f"unplanned, {report.reason}" in str(report)
    assert report.planned_steps == report.arena_bytes == report.lower_bound == 0
    assert report.unexpected_requests == report.planned_requests == 0
    assert training.memory.problems == ()
    training.check_account()
    training.free_all()


@pytest.mark.parametrize("wrapping", [False, True], ids=["within", "wrapping"])
@pytest.mark.parametrize("name", NAMES)
def test_every_planner(name: str, wrapping: bool) -> None:
    program = small_program(wrapping)
    training = Training(name)
    training.step(program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        training.run(program, SETTLED_STEPS)
    report = training.memory.report()
    assert report.planner == name
    if report.status == "unplanned":
        assert len([w for w in caught if "without a new plan" in str(w.message)]) == 1
        assert name in report.reason
        return
    assert report.status in ("optimal", "feasible")
    training.memory.reset_peaks()
    training.run(program, 3)
    report = training.memory.report()
    assert report.unexpected_requests == 0
    assert report.lower_bound <= report.arena_bytes
    training.free_all()


def test_a_time_limit_of_zero_ends_well() -> None:
    program = small_program(True)
    for name in ("auto", "branch-and-bound"):
        training = Training(name, time_limit=0.0)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            training.run(program, SETTLED_STEPS)
        report = training.memory.report()
        assert report.status in ("optimal", "feasible", "unplanned")
        assert (report.planned_steps > 0) == (report.status != "unplanned")
        training.check_account()
        training.free_all()


def raises(_problem: Problem, _budget: Budget) -> Plan:
    raise ZeroDivisionError("of my own")


def refuses(_problem: Problem, _budget: Budget) -> Plan:
    raise UnsupportedProblemError("gaps: not by me")


def finds_nothing(_problem: Problem, _budget: Budget) -> Result:
    return no_plan_found("I looked")


def puts_all_at_the_beginning(problem: Problem, _budget: Budget) -> Plan:
    return Plan.of(problem, np.zeros(problem.tensor_count, dtype=np.int64))


def lies_about_its_peak(problem: Problem, _budget: Budget) -> Plan:
    ends = np.cumsum(problem.size)
    return Plan(ends - problem.size, int(ends[-1]) - 512)


def ignores_the_next_step(problem: Problem, budget: Budget) -> Plan | Result:
    """As if what wraps around were in use from its own turn on alone."""
    tensor, begin, _ = problem.segments().T
    start = [int(begin[tensor == t].max()) for t in range(problem.tensor_count)]
    straight = Problem(problem.size, start, problem.end)
    return registry.get("many-objects-size-best").info.build()(straight, budget)


def forgets_one(problem: Problem, _budget: Budget) -> Plan:
    return Plan(np.zeros(problem.tensor_count - 1, dtype=np.int64), int(problem.size.max()))


def does_not_align(problem: Problem, _budget: Budget) -> Plan:
    return Plan.of(problem, np.cumsum(problem.size) - problem.size + 8)


def returns_no_plan(_problem: Problem, _budget: Budget) -> Plan:
    return "no"  # type: ignore[return-value]


def claims_too_much(problem: Problem, _budget: Budget) -> Result:
    ends = np.cumsum(problem.size)
    plan = feasible(Plan.of(problem, ends - problem.size))
    return Result(plan.status, plan.plan, lower_bound=int(ends[-1]) + 1, certificate="mine")


@pytest.mark.parametrize(
    ("planner", "reason"),
    [
        (raises, "invalid, ZeroDivisionError: of my own"),
        (refuses, "unsupported, gaps: not by me"),
        (finds_nothing, "no_plan_found, I looked"),
        (puts_all_at_the_beginning, "invalid, "),
        (lies_about_its_peak, "invalid, "),
        (ignores_the_next_step, "invalid, "),
        (forgets_one, "invalid, "),
        (does_not_align, "invalid, "),
        (returns_no_plan, "invalid, a planner returns a Plan or a Result, found str"),
        (claims_too_much, "invalid, claims that no plan is below"),
    ],
)
def test_a_planner_that_fails_or_errs_is_never_served(
    own: Callable[[PlannerFunction], str], planner: PlannerFunction, reason: str
) -> None:
    training = Training(own(planner))
    training.step(small_program(True))
    check_unplanned(training, small_program(True), f"planner own-planner: {reason}")


def test_an_arena_larger_than_what_pytorch_would_reserve(
    own: Callable[[PlannerFunction], str],
) -> None:
    def wasteful(problem: Problem, _budget: Budget) -> Plan:
        return Plan.of(problem, np.arange(problem.tensor_count) << 24)

    training = Training(own(wasteful))
    training.step(small_program(False))
    check_unplanned(training, small_program(False), "bytes that PyTorch would reserve, found ")


def test_a_device_that_refuses_an_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    training, program = Training(), small_program(False)
    training.step(program)
    training.allocator.give_back()
    # The device refuses once the requests of the second step are served.
    end_step = training.memory.end_step

    def refused(*, completed: bool) -> None:
        training.device.fail_after(0, 1 << 30)
        end_step(completed=completed)
        training.device.fail_after(0, 0)

    with monkeypatch.context() as patched:
        patched.setattr(training.memory, "end_step", refused)
        with pytest.warns(RuntimeWarning, match="cannot be had"):
            training.step(program)
    assert training.memory.report().status == "unplanned"
    training.run(program, SETTLED_STEPS)
    training.free_all()


def test_a_warning_that_is_an_error_comes_once(own: Callable[[PlannerFunction], str]) -> None:
    training = Training(own(raises))
    training.step(small_program(False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="ZeroDivisionError"):
            training.step(small_program(False))
        training.run(small_program(False), 2)
    assert training.memory.report().steps == 4
    training.free_all()


def test_planning_goes_on_beside_the_training(own: Callable[[PlannerFunction], str]) -> None:
    planning, go_on = threading.Event(), threading.Event()

    def waits(problem: Problem, budget: Budget) -> Plan | Result:
        assert threading.current_thread() is not threading.main_thread()
        planning.set()
        go_on.wait(60)
        return registry.get("many-objects-size-best").info.build()(problem, budget)

    program = small_program(False)
    training = Training(own(waits), planning="beside")
    training.run(program, 2)
    assert planning.wait(60)
    training.run(program, 5)
    assert training.memory.report().status == "profiling"
    go_on.set()
    planner = training.memory._planner
    assert planner is not None
    planner.finish_planning()
    assert training.planned
    assert served(training, program)
    training.free_all()


def test_a_plan_that_was_waited_for_is_adopted_by_the_next_step(
    own: Callable[[PlannerFunction], str],
) -> None:
    go_on = threading.Event()

    def waits(problem: Problem, budget: Budget) -> Plan | Result:
        go_on.wait(60)
        return registry.get("many-objects-size-best").info.build()(problem, budget)

    program = small_program(False)
    training = Training(own(waits), planning="beside")
    training.run(program, 2)
    threading.Timer(0.1, go_on.set).start()
    training.memory.wait_for_planning()
    assert training.memory.report().status == "profiling"
    training.run(program, 1)
    assert training.planned
    training.free_all()


def test_a_planner_that_fails_beside_the_training(own: Callable[[PlannerFunction], str]) -> None:
    training = Training(own(raises), planning="beside")
    training.run(small_program(False), 2)
    planner = training.memory._planner
    assert planner is not None
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError: of my own"):
        planner.finish_planning()
    assert training.memory.report().status == "unplanned"
    training.free_all()


@pytest.mark.parametrize("keeps_its_best", [False, True])
def test_an_interrupted_planner_is_asked_again(
    own: Callable[[PlannerFunction], str], keeps_its_best: bool
) -> None:
    calls = []

    def interrupted(problem: Problem, budget: Budget) -> Plan | Result:
        calls.append(problem)
        if len(calls) == 1 and not keeps_its_best:
            raise KeyboardInterrupt
        best = registry.get("many-objects-size-best").info.build()(problem, budget)
        if len(calls) > 1 or isinstance(best, Result):
            return best
        return replace(feasible(best), interrupted=True)

    program = small_program(False)
    training = Training(own(interrupted))
    training.step(program)
    with pytest.raises(KeyboardInterrupt):
        training.step(program)
    assert training.memory.report().status == "profiling"
    training.run(program, 2)
    assert served(training, program)
    assert len(calls) == 2
    training.free_all()
