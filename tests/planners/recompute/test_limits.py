"""Bounds, the exact model and every planner, against all schedules of tiny steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Graph, Problem
from planners.model.budget import Budget
from planners.model.plan import Plan, Result, Status
from planners.model.work import Work
from planners.recompute import (
    LimitAnswer,
    LimitQuestion,
    LimitResult,
    RepeatableStep,
    UnsupportedStepError,
    choose_planners,
    frontier,
    least_limit,
    limit_result,
    register,
    repeated_problem,
    run_under_limit,
    staged_bound,
)
from planners.recompute.check_sequence import checked_sequence
from planners.recompute.exact_schedule import exact_schedule
from planners.recompute.knapsacks import cheapest_choice
from planners.recompute.limit_planner import LimitPlanner
from planners.recompute.staged_relaxation import held_bytes
from tests.planners.recompute.every_schedule import (
    UNIT_RATES,
    EverySchedule,
    live_bytes,
    mixed_step,
    small_step,
)
from tests.planners.recompute.test_repeatable_step import random_choice

ALL = [planner.name for planner in choose_planners("*")]


def limits(step: RepeatableStep) -> list[int]:
    """Return limits between what a node needs and what the step takes."""
    most = int(step.live_bytes.max())
    least = held_bytes(step)
    return [least + (most - least) * part // 5 for part in range(6)]


def budget() -> Budget:
    return Budget(node_limit=20_000).started()


def question_of(step: RepeatableStep, limit: int) -> LimitQuestion:
    return LimitQuestion(step, limit, budget(), staged_bound(step, limit, budget()))


def answer_of(name: str, step: RepeatableStep, limit: int) -> LimitResult:
    (planner,) = choose_planners(name)
    return run_under_limit(question_of(step, limit), planner)


@pytest.mark.parametrize("skip_every", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_the_exact_model_finds_the_best_of_all_schedules(seed: int, skip_every: int) -> None:
    step = small_step(seed, skip_every=skip_every)
    every = EverySchedule.of(step)
    assert held_bytes(step) <= least_limit(step, budget()) <= min(every.peaks)
    for limit in limits(step):
        expected = every.least_extra(limit)
        found = exact_schedule(step, limit, Budget().started())
        assert found.least_seconds == pytest.approx(expected)
        assert (found.sequence is None) == np.isinf(expected)
        if found.sequence is not None:
            assert live_bytes(step, checked_sequence(step, found.sequence).tolist()) <= limit
        assert staged_bound(step, limit, budget()).seconds <= expected * (1 + 1e-9)


@pytest.mark.parametrize("may_send", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_no_schedule_is_below_the_bound(seed: int, may_send: bool) -> None:
    step = small_step(seed, layers=2 + seed % 9, operations=1 + seed % 3, may_send=may_send)
    least = least_limit(step, budget())
    for attempt in range(6):
        sequence = step.late_sequence(random_choice(step, 100 * seed + attempt))
        seconds, peak, _ = step.core.cost(sequence, 0)
        bound = staged_bound(step, peak, budget())
        assert bound.seconds <= seconds + 1e-9 * step.seconds
        assert least <= peak


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_leaves_copies_the_time_that_they_have(seed: int) -> None:
    # Copies that nobody waits for add no time, so that a bound above 0 would be wrong.
    step = small_step(seed, layers=4 + seed % 6, operations=2, may_send=True)
    free = 0
    for tensor in np.flatnonzero(step.is_sendable).tolist():
        seconds, peak, _ = step.cost(step.choice((), [tensor]), 0)
        bound = staged_bound(step, peak, budget()).seconds
        assert bound <= seconds + 1e-9 * step.seconds
        free += seconds < 1e-9 * step.seconds and peak < step.live_bytes.max()
    assert free


def test_a_second_run_holds_what_its_own_nodes_read() -> None:
    """Nodes 1 and 2 change tensor 0, and node 2 reads tensor 1, which nobody else reads."""
    graph = Graph(
        op=["make", "change", "change", "large", "late"], stream=[0] * 5,
        producer=[0, 1, 2, 3, 3, 4], consumers=[[1, 2, 4], [2], [], [4], [], []],
        work=Work(
            flops=[1] * 5, moved_bytes=[0] * 5, phase=[0, 0, 0, 0, 1], repeatable=[1, 1, 1, 0, 0],
            written=[(1, 0), (2, 0)],
        ),
    )  # fmt: skip
    step = RepeatableStep(Problem([8, 8, 8, 8, 16, 0], graph=graph), UNIT_RATES)
    every = EverySchedule.of(step)
    for limit in (24, 28, 32):
        found = exact_schedule(step, limit, Budget().started())
        assert found.least_seconds == pytest.approx(every.least_extra(limit))
    assert np.isinf(every.least_extra(28))


def test_the_bound_grows_as_the_limit_falls() -> None:
    step = small_step(5, layers=20, operations=4)
    bounds = [staged_bound(step, limit, budget()).seconds for limit in limits(step)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == 0 < bounds[2]


def test_a_bound_is_close_to_the_optimum_of_larger_steps() -> None:
    gaps = []
    for seed in range(6):
        step = small_step(seed, layers=8, operations=2)
        limit = limits(step)[3]
        exact = exact_schedule(step, limit, Budget().started())
        assert exact.sequence is not None
        bound = staged_bound(step, limit, budget()).seconds
        gaps.append((step.seconds + exact.least_seconds) / (step.seconds + bound) - 1)
    assert max(gaps) < 0.02


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("may_send", [False, True])
def test_every_planner_answers_within_the_limit(name: str, may_send: bool) -> None:
    (planner,) = choose_planners(name)
    met = 0
    for seed in range(3):
        step = small_step(seed, layers=8, operations=2, may_send=may_send)
        for limit in [*limits(step)[1:], held_bytes(step) - 1]:
            question = question_of(step, limit)
            result = run_under_limit(question, planner)
            assert result.status is not Status.INVALID, result.reason
            if result.plan is not None:
                met += 1
                assert result.plan.peak <= limit
                assert result.extra_seconds >= question.bound.seconds - 1e-9 * step.seconds
            if limit < held_bytes(step):
                assert result.status is Status.INFEASIBLE
    # CP-SAT sends nothing away, and PyTorch's partitioner needs a model to trace.
    is_ours = not name.startswith("pytorch-partitioner")
    assert bool(met) == (is_ours and (name, may_send) != ("cp-sat", True))


def test_local_search_is_optimal_on_small_steps() -> None:
    for seed in range(8):
        step = small_step(seed, layers=8, operations=2)
        limit = limits(step)[2]
        exact = exact_schedule(step, limit, Budget().started())
        result = answer_of("local-search", step, limit)
        if exact.sequence is None:
            assert result.plan is None
        elif result.plan is not None:
            assert result.extra_seconds == pytest.approx(exact.least_seconds, rel=0.05)


LOOPING = ("greedy", "knapsack", "block-programming", "local-search", "cp-sat")


@pytest.mark.parametrize("name", LOOPING)
def test_a_planner_without_time_says_so(name: str) -> None:
    step = small_step(1, layers=8, operations=2)
    question = replace(question_of(step, limits(step)[3]), budget=Budget(time_limit_seconds=0))
    result = run_under_limit(question, *choose_planners(name))
    assert (result.status, result.plan) == (Status.NO_PLAN_FOUND, None)
    assert result.reason.startswith("the time limit passed")


def test_a_planner_with_time_does_not_blame_it() -> None:
    step = small_step(1, layers=8, operations=2)
    for name in LOOPING[:4]:
        result = answer_of(name, step, held_bytes(step))
        assert result.reason == "no choice that was tried meets the limit"


def test_greedy_counts_less_than_in_proportion_to_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    (greedy,) = choose_planners("greedy")
    cost = RepeatableStep.cost

    def counted(*arguments: Any) -> tuple[float, int, float]:
        counts[-1] += 1
        return cost(*arguments)

    monkeypatch.setattr(RepeatableStep, "cost", counted)
    for units in (600, 2400):
        # Unit n makes what the backward pass reads n places from the end.
        consumers = [[node + 1, 2 * units - 1 - node] for node in range(units - 1)]
        consumers += [[node + 1] for node in range(units - 1, 2 * units - 1)] + [[]]
        phase = [0] * units + [1] * units
        graph = Graph(
            op=["op"] * len(phase), stream=[0] * len(phase), producer=range(len(phase)),
            consumers=consumers,
            work=Work(
                flops=[1] * len(phase), moved_bytes=[0] * len(phase), phase=phase,
                repeatable=[1 - late for late in phase],
            ),
        )  # fmt: skip
        step = RepeatableStep(Problem([8] * len(phase), graph=graph), UNIT_RATES)
        limit = 6 * units
        bound = staged_bound(step, limit, Budget(time_limit_seconds=0).started())
        counts.append(0)
        assert greedy.answer(LimitQuestion(step, limit, budget(), bound)).sequence is not None
    assert counts[1] < 3 * counts[0]


def chained_step() -> tuple[RepeatableStep, int]:
    """Return a step whose node 7 reads a chain of two tensors, which may be made again."""
    graph = Graph(
        op=["input", "x", "y", "z", "big", "late big", "late z", "late x y"], stream=[0] * 8,
        producer=range(8), consumers=[[1, 2, 3, 4], [7, 6], [7], [6], [5], [6], [7], []],
        work=Work(
            flops=[0, 1, 1, 1, 10, 10, 1, 1], moved_bytes=[0] * 8, phase=[0, 0, 0, 0, 0, 1, 1, 1],
            repeatable=[0, 1, 1, 0, 0, 0, 0, 0],
        ),
    )  # fmt: skip
    problem = Problem([1, 4, 4, 1, 10, 5, 4, 1], graph=graph, contiguous=[(1, 2)])
    step = RepeatableStep(problem, UNIT_RATES)
    return step, int(step.live_bytes.max()) - 2


def test_a_chain_that_is_made_again_is_a_chain() -> None:
    step, limit = chained_step()
    for name in ("greedy", "local-search", "cp-sat"):
        result = answer_of(name, step, limit)
        assert result.plan is not None
        assert result.problem is not None
        # Each copy of the second tensor begins where the copy of the first one ends.
        offsets = result.plan.offsets.tolist()
        assert result.problem.tensor_count == 10
        assert offsets[9] == offsets[8] + 4


def test_the_judge_sees_a_chain_that_is_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(step: RepeatableStep, sequence: Any) -> Problem:
        made = repeated_problem(step, sequence)
        return Problem(made.size, graph=made.graph, contiguous=made.contiguous[:1])

    def apart(problem: Problem, *_: Any) -> Result:
        offsets = [0] * 8 + [9, 0]
        return Result(Status.FEASIBLE, Plan.of(problem, offsets))

    step, limit = chained_step()
    monkeypatch.setattr(limit_result, "repeated_problem", torn)
    monkeypatch.setattr(limit_result, "run", apart)
    result = answer_of("greedy", step, limit)
    assert result.status is Status.INVALID
    assert "must be at 13, the end of tensor 1 of its chain, found at 0" in result.reason


@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith("pytorch")])
def test_interleaved_passes_get_no_invalid_plan(name: str) -> None:
    reasons = set()
    for seed in range(1, 40, 2):
        step = mixed_step(seed)
        result = answer_of(name, step, int(step.live_bytes.max()) - 1)
        assert result.status is not Status.INVALID, result.reason
        if result.status is Status.UNSUPPORTED:
            reasons.add(result.reason)
    assert bool(reasons) == name.startswith("checkpoint")
    assert all("ends before the backward pass begins" in reason for reason in reasons)


def test_local_search_never_answers_less_than_those_it_starts_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Local search finds a faster sequence than greedy here, whose addresses do not fit.
    step = small_step(9, layers=8, operations=2)
    limit = limits(step)[3]
    question = question_of(step, limit)
    greedy, search = choose_planners("greedy,local-search")
    known = run_under_limit(question, greedy)
    assert known.problem is not None
    copies = known.problem.tensor_count
    run = limit_result.run

    def only_greedy_s(problem: Problem, *arguments: Any) -> Result:
        found = run(problem, *arguments)
        assert found.plan is not None
        if problem.tensor_count == copies:
            return found
        return replace(found, plan=Plan(found.plan.offsets, limit + 1))

    monkeypatch.setattr(limit_result, "run", only_greedy_s)
    for asked, results in ((question, ()), (replace(question, budget=Budget(0)), [known])):
        result = run_under_limit(asked, search, results)
        assert (result.planner, result.status) == ("local-search", Status.FEASIBLE)
        assert result.extra_seconds == known.extra_seconds


def test_the_planning_of_addresses_has_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    step = small_step(1, layers=8, operations=2)
    asked = Budget(time_limit_seconds=100, seed=7)
    question = replace(question_of(step, limits(step)[4]), budget=asked)
    given: list[Budget] = []
    run = limit_result.run

    def noted(problem: Problem, planner: str, budget: Budget) -> Result:
        given.append(budget)
        return run(problem, planner, budget)

    monkeypatch.setattr(limit_result, "run", noted)
    (greedy,) = choose_planners("greedy")
    run_under_limit(question, greedy)
    assert 0 < given[0].time_limit_seconds <= 50
    assert given[0].seed == 7


def test_the_same_seed_gives_the_same_answer() -> None:
    step = small_step(2, layers=12, operations=3, may_send=True)
    (planner,) = choose_planners("local-search")
    first, second = (planner.answer(question_of(step, limits(step)[2])) for _ in range(2))
    assert first.sequence is not None
    assert second.sequence is not None
    assert first.sequence.tolist() == second.sequence.tolist()


def result_of(answer: Callable[[LimitQuestion], Any]) -> LimitResult:
    step = small_step(1, layers=8, operations=2)
    question = question_of(step, limits(step)[2])
    return run_under_limit(question, LimitPlanner("a third party's", "", "", answer))


def test_a_planner_that_cheats_is_invalid() -> None:
    result = result_of(lambda _question: LimitAnswer(np.arange(3, dtype=np.int32)))
    assert result.status is Status.INVALID
    assert "first runs are needed" in result.reason


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ValueError("no idea"), Status.INVALID, "no idea"),
        (SystemExit(0), Status.INVALID, "SystemExit: 0"),
        (MemoryError("9 GiB"), Status.NO_PLAN_FOUND, "out of memory: 9 GiB"),
        (TimeoutError("it took too long"), Status.NO_PLAN_FOUND, "it took too long"),
        (UnsupportedStepError("not this one"), Status.UNSUPPORTED, "not this one"),
    ],
)
def test_a_planner_that_fails_ends_nothing(error: BaseException, status: Status, said: str) -> None:
    def fail(_question: LimitQuestion) -> LimitAnswer:
        raise error

    result = result_of(fail)
    assert (result.status, said in result.reason) == (status, True)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("yes", "a planner returns a LimitAnswer, found str"),
        (LimitAnswer(None, reason=5), "a reason is a string, found 5"),  # type: ignore[arg-type]
        (LimitAnswer(None, interrupted="yes"), "interrupted is true"),  # type: ignore[arg-type]
        (LimitAnswer(None, statistics={"a": object()}), "statistics, a: a"),  # type: ignore[dict-item]
        (LimitAnswer(np.array([0.5])), "a whole number that fits int64 is needed, found 0.5"),
    ],
)
def test_a_planner_that_answers_something_else_is_invalid(answer: Any, said: str) -> None:
    result = result_of(lambda _question: answer)
    assert (result.status, said in result.reason) == (Status.INVALID, True), result.reason


def test_reasons_of_third_parties_are_one_printable_line() -> None:
    result = result_of(lambda _question: LimitAnswer(None, reason="\x1b]0;title\x07a\n\x1b[2Jb"))
    assert (result.status, result.reason) == (Status.NO_PLAN_FOUND, "a b")


def test_a_wrapper_of_a_planner_of_ours_is_a_third_partys(own_registry: None) -> None:  # noqa: ARG001
    (greedy,) = choose_planners("greedy")
    assert greedy.built_in

    @register("wrapped", summary="a\x1b[2J wrapper\nof ours")
    @wraps(greedy.answer)
    def wrapped(question: LimitQuestion) -> LimitAnswer:
        return greedy.answer(question)

    (found,) = choose_planners("wrapped")
    assert not found.built_in
    assert found.summary == "a wrapper of ours"


def test_the_proof_of_a_third_party_does_not_count() -> None:
    result = result_of(lambda _question: LimitAnswer(None, "none", np.inf, "a claim"))
    assert result.status is Status.NO_PLAN_FOUND
    assert result.certificate == "staged-relaxation"


def test_ctrl_c_keeps_results_so_far() -> None:
    step = small_step(1, layers=8, operations=2)
    (greedy,) = choose_planners("greedy")

    def interrupted(_question: LimitQuestion) -> LimitAnswer:
        raise KeyboardInterrupt

    asked = [greedy, LimitPlanner("interrupted", "", "", interrupted), greedy]
    points = frontier(step, limits(step)[4:], asked, budget())
    assert [result.planner for result in next(points).results] == ["greedy"]
    with pytest.raises(KeyboardInterrupt):
        next(points)


@pytest.mark.parametrize("module", ["", "planners.recompute.local_search"])
def test_a_planner_of_ours_that_kept_its_best_ends_the_frontier_as_well(module: str) -> None:
    step = small_step(1, layers=8, operations=2)
    everything = step.late_sequence(step.choice())
    kept = LimitPlanner(
        "kept", "", "", lambda _q: LimitAnswer(everything, interrupted=True), module
    )
    points = frontier(step, [int(step.live_bytes.max())] * 2, [kept, kept], budget())
    if not module:  # a third party's planner may falsely report an interrupt
        assert [len(point.results) for point in points] == [2, 2]
        return
    assert [result.plan is not None for result in next(points).results] == [True]
    with pytest.raises(KeyboardInterrupt):
        next(points)


choices = st.lists(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50).map(float)), min_size=1, max_size=3),
    min_size=1, max_size=4,
)  # fmt: skip


@given(choices, st.integers(0, 120))
def test_the_cheapest_choice(options: list[list[tuple[int, float]]], wanted: int) -> None:
    found = cheapest_choice(options, wanted)
    enough = [
        sum(seconds for _, seconds in taken)
        for taken in product(*options)
        if sum(saved for saved, _ in taken) >= wanted
    ]
    if found is None:
        assert not enough
        return
    taken = [each[number] for each, number in zip(options, found, strict=True)]
    assert sum(saved for saved, _ in taken) >= wanted
    assert sum(seconds for _, seconds in taken) == min(enough)
