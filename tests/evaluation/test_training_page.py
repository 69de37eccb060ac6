"""The page on training under a plan; its children and its pairs are stand-ins."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from threading import Barrier

import pytest

from evaluation.benchmarks import __main__ as command_line
from evaluation.benchmarks import training
from evaluation.benchmarks.allocation_pairs import PairCase, pair_rows
from evaluation.benchmarks.checks_at_once import ChecksAtOnce
from evaluation.benchmarks.page import Page
from evaluation.benchmarks.training import CASES, training_page
from gpu_runtime.training.answer import Answer, Failure
from gpu_runtime.training.job import Allocator, Job, Purpose
from gpu_runtime.training.study import Findings, run_study
from instances.extract.models import find_model
from tests.evaluation.test_verify_page import rows_of
from tests.gpu_runtime.training.answers import CHECK, TIME, planned_check, planned_time

MICROSECONDS = {Allocator.DEFAULT: 2.0, Allocator.EXPANDABLE: 3.0, Allocator.PLANNED: 1.0}


def child(job: Job) -> Answer:
    if job.label == "time expandable":
        return Failure("out of memory: much")
    if job.allocator is Allocator.PLANNED:
        return planned_check() if job.purpose is Purpose.CHECK else planned_time()
    return CHECK if job.purpose is Purpose.CHECK else TIME


def pair(case: PairCase) -> list[float]:
    middle = MICROSECONDS[case.allocator] * 1e-6
    return [middle * 10, middle, middle * 0.5]


def test_a_table_a_model_and_one_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "require_sound", lambda _: None)
    jobs: list[Job] = []

    def remembering(job: Job) -> Answer:
        jobs.append(job)
        return child(job)

    text = training_page(
        "command", 40, ["bert-base", "gpt2-medium", "pairs"], remembering, pair
    ).render()
    assert {job.timed_steps for job in jobs} == {40}
    assert "## bert-base\n\n`python -m gpu_runtime.train bert-base --batch 32 --seq 512`" in text
    assert "--batch 8 --seq 1024 --checkpointing --microbatches 4`" in text
    assert text.count("torch 2.11.0; device NVIDIA H200") == 1
    assert text.count("- bit-identical: 4 losses, ") == 2
    assert text.count("- time expandable: out of memory: much") == 2
    rows = rows_of(text)
    assert rows["**planned**"][3] == "99.976%"
    assert rows["default"][3] == "80.000%"
    assert rows["planned, inside a step"] == ["0.500", "1.000", "10.000", "0.500x"]


def test_a_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "require_sound", lambda _: None)
    text = training_page("command", 40, ["resnet-50"], child, pair).render()
    assert "## resnet-50" in text
    assert "## bert-base" not in text
    assert "## Pairs" not in text
    assert "torch 2.11.0" in text


def test_a_part_that_does_not_exist_is_one_line(
    main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.sched_getaffinity(0)
    assert main("training", "--only", "bert-bse") == 2
    assert "error: --only: no part is called 'bert-bse'; did you mean 'bert-base'" in (
        capsys.readouterr().err
    )
    os.sched_setaffinity(0, before)


def test_pairs_are_compared_with_native_ones() -> None:
    rows = pair_rows(pair)
    assert [row[0] for row in rows] == [
        "native", "native, expandable segments", "planned, inside a step",
        "planned, outside of steps",
    ]  # fmt: skip
    assert [row[4] for row in rows] == ["1.000x", "1.500x", "0.500x", "0.500x"]


@pytest.mark.parametrize("job", CASES, ids=lambda job: job.model)
def test_every_case_is_one_that_its_model_has(job: Job) -> None:
    find_model(job.model).settings(**job.shape, precision=job.settings.weights_precision)
    assert job.settings.steps >= 5


@pytest.mark.torch
def test_pairs_are_timed_after_a_warm_up() -> None:
    from evaluation.benchmarks.allocation_pairs import CASES as PAIR_CASES
    from evaluation.benchmarks.allocation_pairs import pair_seconds

    seconds = pair_seconds(PAIR_CASES[0], "cpu", pairs=5, repetitions=4)
    assert len(seconds) == 4
    assert all(0 < value < 1 for value in seconds)


@pytest.mark.torch
def test_pairs_that_the_plan_did_not_serve_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation.benchmarks.allocation_pairs import CASES as PAIR_CASES
    from evaluation.benchmarks.allocation_pairs import pair_seconds
    from gpu_runtime.training import memory_side
    from planners.errors import GaplessError
    from tests.gpu_runtime.training.answers import PLAN

    served = replace(PLAN, planned_requests=19)
    monkeypatch.setattr(memory_side.HostMemory, "plan", lambda _: served)
    with pytest.raises(GaplessError, match="was to serve 20 requests, and served 19"):
        pair_seconds(PAIR_CASES[2], "cpu", pairs=5, repetitions=4)
    assert pair_seconds(PAIR_CASES[3], "cpu", pairs=5, repetitions=4)


@pytest.mark.gpu
def test_the_plan_serves_every_pair() -> None:
    from evaluation.benchmarks import allocation_pairs

    for case in allocation_pairs.CASES:
        assert min(allocation_pairs._in_a_process(case)) > 0


def test_checks_side_by_side_are_the_same_jobs() -> None:
    together = Barrier(3)
    jobs: list[str] = []

    def waiting(job: Job) -> Answer:
        if job.purpose is Purpose.CHECK:
            together.wait(30)
        jobs.append(job.to_json())
        return child(job)

    alone: list[str] = []

    def remembering(job: Job) -> Answer:
        alone.append(job.to_json())
        return child(job)

    side_by_side, one_by_one = Findings(), Findings()
    run_study(CASES[0], tuple(Allocator), side_by_side, lambda *_: None, ChecksAtOnce(waiting))
    run_study(CASES[0], tuple(Allocator), one_by_one, lambda *_: None, remembering)
    assert sorted(jobs) == sorted(alone)
    assert side_by_side.checks == one_by_one.checks


def test_the_page_says_how_it_was_made(
    main: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, bool]] = []

    def page(command: str, *_: object, checks_at_once: bool) -> Page:
        made.append((command, checks_at_once))
        return Page("title", command)

    monkeypatch.setattr(command_line, "training_page", page)
    before = os.sched_getaffinity(0)
    assert main("training", "--only", "pairs", "--checks-at-once") == 0
    assert main("training") == 0
    os.sched_setaffinity(0, before)
    begin = "python -m evaluation.benchmarks training --timed-steps 30"
    assert made == [(f"{begin} --only pairs --checks-at-once", True), (begin, False)]
