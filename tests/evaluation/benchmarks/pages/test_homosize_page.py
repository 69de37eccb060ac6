"""The page on spatio-temporal planning: the problems it makes of traces, and what it claims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.benchmarks.cases import homosize_cases
from evaluation.benchmarks.cases.homosize_cases import (
    RecordedCase,
    VariantRuns,
    cases_of,
    last_microbatch,
    longer_iteration,
    microbatches_for,
    run_variant,
)
from evaluation.benchmarks.contestants.planning_calls import Source
from evaluation.benchmarks.pages import homosize_page
from instances.formats.recorded_trace import write_recorded_trace
from instances.synthetic import training_trace
from instances.traces.allocation_trace import AllocationTrace
from planners import GaplessError, Plan, Problem, feasible, get, run, write_problem
from planners.model.plan import Parameters

# Weights; two iterations of two microbatches, each with an activation, freed in the backward pass,
# and a transient request; an update. Phases begin at the marks; every event is one of its own.
ITERATION = 20
MICROBATCHES = ((0, 4), (8, 12))
OPTIMIZER = 16


def small_trace(varying: int = 0) -> AllocationTrace:
    size, alloc, freed = [64], [0], [1 + 2 * ITERATION]
    for iteration in range(2):
        begin = 1 + iteration * ITERATION
        for forward, backward in MICROBATCHES:
            transient = 4 + varying * iteration
            size += [16, transient]
            alloc += [begin + forward + 1, begin + backward + 1]
            freed += [begin + backward + 2, begin + backward + 3]
        size.append(8)
        alloc.append(begin + OPTIMIZER + 1)
        freed.append(begin + OPTIMIZER + 2)
    marks = [
        (1 + iteration * ITERATION + at, phase, microbatch, iteration)
        for iteration in range(2)
        for at, phase, microbatch in ((0, 0, 0), (4, 1, 0), (8, 0, 1), (12, 1, 1), (16, 2, 1))
    ]
    event, phase, microbatch, number = (list(column) for column in zip(*marks, strict=True))
    return AllocationTrace(
        2 * ITERATION + 1, size, alloc, [min(f, 2 * ITERATION + 1) for f in freed],
        [min(f, 2 * ITERATION + 1) for f in freed],
        address=[1024 * (request + 1) for request in range(len(size))],
        mark_event=event, mark_phase=phase, mark_microbatch=microbatch, mark_iteration=number,
    )  # fmt: skip


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "bert-base.npz"
    write_recorded_trace(small_trace(), path)
    return path


def in_this_process(source: Source, parameters: Parameters, repetitions: int) -> VariantRuns:
    results = [run(source(), get("homosize", **parameters)) for _ in range(repetitions)]
    return VariantRuns(results, [1 << 20] * repetitions)


def test_a_trace_is_its_last_iteration_with_persistent_blocks_and_without(
    trace_file: Path,
) -> None:
    cases = cases_of(trace_file)
    assert [(case.part, case.persistent, case.requests) for case in cases] == [
        ("all", True, 6), ("all", False, 5),
    ]  # fmt: skip
    assert all(case.dense for case in cases)
    assert [case.bound for case in cases] == [84, 20]


def test_where_sizes_vary_the_static_part_is_a_problem_too(
    trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def marked(path: Path, persistent: bool, *, static: bool) -> Problem:
        problem = original(path, persistent, static=False)
        drawn = Problem(
            problem.size, problem.start, problem.end, dynamic=(problem.size == 4).tolist()
        )
        return homosize_cases.static_part(drawn).problem if static else drawn

    original = homosize_cases.last_iteration
    monkeypatch.setattr(homosize_cases, "last_iteration", marked)
    cases = cases_of(trace_file)
    assert [(case.part, case.requests) for case in cases] == [
        ("all", 6), ("static part", 4), ("all", 5), ("static part", 3),
    ]  # fmt: skip
    assert not any(case.dense for case in cases)


def test_an_instance_is_one_case(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    write_problem(Problem([5, 4], [0, 1], [2, 3]), path)
    (case,) = cases_of(path)
    assert (case.name, case.requests, case.bound) == ("mine", 2, 9)


def test_the_last_microbatch_ends_with_the_optimizer(trace_file: Path) -> None:
    assert last_microbatch(small_trace()) == (8, 16)
    once, twice = (longer_iteration(trace_file, times) for times in (1, 2))
    assert twice.tensor_count == once.tensor_count + 2
    assert microbatches_for((0, 7, 8, 9), trace_file) == [1, 2, 2, 3]


def test_a_trace_without_an_optimizer_has_no_last_microbatch() -> None:
    trace = small_trace()
    for_ever = AllocationTrace(
        trace.event_count, trace.size, trace.alloc, trace.free_requested, trace.freed,
        mark_event=[1, 5], mark_phase=[0, 1], mark_microbatch=[0, 0], mark_iteration=[0, 0],
    )  # fmt: skip
    with pytest.raises(GaplessError, match=r"found phases \[0, 1\]"):
        last_microbatch(for_ever)


def test_a_variant_runs_in_processes_of_its_own(trace_file: Path) -> None:
    case = cases_of(trace_file)[0]
    runs = run_variant(case.source, {"variant": "paper"}, 1)
    assert runs.efficiency(case.bound) == 1.0
    assert runs.results[0].parameters["variant"] == "paper"
    assert runs.added_bytes[0] >= 0


def runs_of(peak: int, *cpu_seconds: float) -> VariantRuns:
    answer = feasible(Plan([0], peak))
    return VariantRuns(
        [replace(answer, cpu_seconds=one) for one in cpu_seconds], [7] * len(cpu_seconds)
    )


def test_the_worst_run_is_compared_with_the_faster_planner_of_the_public_code() -> None:
    case = RecordedCase("qwen-moe-R", "all", False, lambda: training_trace(4), 4, 8, 8, dense=False)
    assert homosize_page._is_compared(case)
    assert homosize_page._against_public_code(case, runs_of(8, 0.1, 0.69, 0.2)) == pytest.approx(
        100
    )
    assert runs_of(8, 0.1, 0.69, 0.2).took() == "0.200 (0.690)"


@pytest.mark.parametrize(("peak", "reached"), [(1000, "yes"), (1001, "yes"), (1002, "no")])
def test_an_efficiency_is_reached_or_not(peak: int, reached: str) -> None:
    case = RecordedCase("x", "all", True, lambda: training_trace(4), 4, 1000, 1000, dense=True)
    (row,) = homosize_page._efficiency_rows(
        "dense", [(case, {"homosize": runs_of(peak, 1.0)})], 0.999
    )
    assert row[-1] == reached


def test_every_reading_has_a_name_of_its_own() -> None:
    names = [name for name, _ in homosize_page.readings()]
    assert len(set(names)) == len(names)
    assert len({choices for _, choices in homosize_page.readings()}) == len(names)


def test_the_page_names_files_and_no_folder(
    trace_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(homosize_page, "run_variant", in_this_process)
    monkeypatch.setattr(homosize_cases, "SYNTHETIC", (40,))
    monkeypatch.setattr(homosize_cases, "LARGEST_PUBLISHED", 20)
    monkeypatch.setattr(homosize_cases, "MANY_COUNT", 30)
    text = homosize_page.homosize_page([trace_file], "the command", 2).render()
    assert str(tmp_path) not in text
    assert "| bert-base | " in text
    assert "5.8 / 5.5" in text
    assert "85.5%" in text
    assert "synthetic, 40" in text
    assert "| as chosen " in text
    assert "of at least 99.9%, dense (2 problems)" in text
