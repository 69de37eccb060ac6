"""In which order programs are run, who waits meanwhile, and the processes that run them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from evaluation.benchmarks.measuring import program_workers
from evaluation.benchmarks.measuring.program_turns import (
    STARTED_AHEAD,
    ProgramSettings,
    study_programs,
)
from evaluation.benchmarks.measuring.program_workers import Ask, run_program_apart
from evaluation.benchmarks.programs.program_list import PROGRAMS, find_programs
from evaluation.benchmarks.programs.program_result import ProgramAnswer, ProgramResult
from evaluation.benchmarks.programs.program_specification import ProgramSpecification, Scale
from evaluation.benchmarks.programs.program_study import ProgramStudy
from gpu_runtime.training.run_specification import Allocator, Purpose
from gpu_runtime.training.worker_result import Failure
from tests.evaluation.benchmarks.programs.made_up_studies import CHECK, study

TWO = find_programs(["plain", "random-lengths"])
SETTINGS = ProgramSettings(checks_at_once=3)
TINY = ProgramSpecification(
    Purpose.CHECK, Allocator.DEFAULT, "plain", Scale.TINY, 1, 2, device="cpu"
)


class Processes:
    """Stand-ins that are started, asked and ended, each of which is noted."""

    def __init__(self, answer: Callable[[ProgramSpecification], ProgramAnswer]) -> None:
        self.answer = answer
        self.events: list[tuple[str, ProgramSpecification]] = []

    @contextmanager
    def start(self, specification: ProgramSpecification) -> Iterator[Ask]:
        self.events.append(("start", specification))

        def ask() -> ProgramAnswer:
            self.events.append(("ask", specification))
            return self.answer(specification)

        yield ask
        self.events.append(("end", specification))

    def of(self, purpose: Purpose) -> list[tuple[str, ProgramSpecification]]:
        return [(event, its) for event, its in self.events if its.purpose is purpose]


def measure(
    processes: Processes, settings: ProgramSettings = SETTINGS
) -> tuple[ProgramStudy, list[list[str]]]:
    made, kept = study(), []

    def keep() -> None:
        kept.append([*made.findings])

    study_programs(TWO, settings, made, lambda _: None, keep, processes.start)
    return made, kept


def as_label(specification: ProgramSpecification) -> ProgramAnswer:
    return Failure(specification.label)


def test_every_answer_lands_where_it_belongs() -> None:
    made, kept = measure(Processes(as_label))
    assert kept == [["plain"], ["plain", "random-lengths"]]
    for program, findings in made.findings.items():
        for its in Allocator:
            assert findings.checks[its] == Failure(f"{program}, check {its}")
            assert findings.timings[its] == [Failure(f"{program}, time {its}")]


def test_what_is_run_is_what_the_settings_say() -> None:
    processes = Processes(as_label)
    measure(processes, ProgramSettings(timed_steps=33, device="cpu"))
    plain, random = (
        {replace(its, allocator=Allocator.DEFAULT) for _, its in processes.events
         if its.program == program.name}
        for program in TWO
    )  # fmt: skip
    check, time = Purpose.CHECK, Purpose.TIME
    assert plain == {
        ProgramSpecification(check, Allocator.DEFAULT, "plain", Scale.QUICK, 10, 4, device="cpu"),
        ProgramSpecification(time, Allocator.DEFAULT, "plain", Scale.FULL, 10, 33, device="cpu"),
    }
    assert {its.warm_up for its in random} == {30}


def test_a_timed_process_is_alone_and_the_next_ones_wait() -> None:
    processes = Processes(as_label)
    measure(processes)
    waiting = 0
    running: ProgramSpecification | None = None
    most = 0
    for event, its in processes.of(Purpose.TIME):
        if event == "start":
            assert running is None
            waiting += 1
        elif event == "ask":
            assert running is None
            running, waiting = its, waiting - 1
            most = max(most, waiting)
        else:
            assert running == its
            running = None
    assert most == STARTED_AHEAD
    assert waiting == 0


def test_every_other_round_has_the_opposite_order() -> None:
    processes = Processes(as_label)
    made, _ = measure(processes, replace(SETTINGS, rounds=2))
    asked = [its for event, its in processes.of(Purpose.TIME) if event == "ask"]
    order = [*Allocator, *reversed(Allocator)]
    assert [its.allocator for its in asked] == order * 2
    assert [its.program for its in asked] == ["plain"] * 6 + ["random-lengths"] * 6
    assert all(
        len(answers) == 2
        for findings in made.findings.values()
        for answers in findings.timings.values()
    )


def test_so_many_checks_run_at_the_same_time() -> None:
    together = threading.Barrier(3)

    def check(specification: ProgramSpecification) -> ProgramAnswer:
        if specification.purpose is Purpose.CHECK:
            together.wait(30)
        return CHECK

    made, _ = measure(Processes(check))
    assert made.findings["plain"].checks == dict.fromkeys(Allocator, CHECK)


def test_an_error_of_ours_in_a_check_is_raised() -> None:
    def refuse(_: ProgramSpecification) -> ProgramAnswer:
        raise OSError("no more processes")

    with pytest.raises(OSError, match="no more processes"):
        measure(Processes(refuse))


def test_processes_that_wait_are_ended_with_the_one_that_breaks() -> None:
    def break_off(specification: ProgramSpecification) -> ProgramAnswer:
        if specification.purpose is Purpose.TIME:
            raise KeyboardInterrupt
        return CHECK

    class Ended(Processes):
        @contextmanager
        def start(self, specification: ProgramSpecification) -> Iterator[Ask]:
            try:
                with super().start(specification) as ask:
                    yield ask
            finally:
                self.events.append(("gone", specification))

    processes = Ended(break_off)
    with pytest.raises(KeyboardInterrupt):
        measure(processes)
    events = [event for event, _ in processes.of(Purpose.TIME)]
    assert events.count("start") == events.count("gone") == 1 + STARTED_AHEAD


def run_code(monkeypatch: pytest.MonkeyPatch, code: str, ranks: int = 1) -> ProgramAnswer:
    monkeypatch.setattr(program_workers, "COMMAND", (sys.executable, "-c", code))
    return run_program_apart(replace(TINY, ranks=ranks))


ENVIRONMENT = (
    "import json, os, sys; its = json.loads(sys.stdin.readline()); "
    "names = ('CUDA_VISIBLE_DEVICES', 'TORCHINDUCTOR_DETERMINISTIC', 'CUBLAS_WORKSPACE_CONFIG', "
    "'MASTER_ADDR'); print(json.dumps({'kind': 'failure', 'message': "
    "' '.join(map(str, [its['rank'], *map(os.environ.get, names)]))}))"
)


@pytest.mark.parametrize(("visible", "seen"), [(None, "0"), ("2,3", "2")])
def test_a_program_of_one_process_sees_one_gpu(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, seen: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert run_code(monkeypatch, ENVIRONMENT) == Failure(f"0 {seen} 1 :4096:8 None")


def test_one_of_several_sees_all_and_knows_where_they_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    found = run_code(monkeypatch, ENVIRONMENT, ranks=2)
    assert found == Failure("0 2,3 1 :4096:8 127.0.0.1")


def test_a_process_that_goes_on_for_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_workers, "LIMIT_SECONDS", 0.2)
    found = run_code(monkeypatch, "import time; time.sleep(600)")
    assert found == Failure("the process had not ended after 0.2 s")


def test_a_process_that_dies_before_it_is_asked_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = run_code(monkeypatch, "raise ValueError('of all things')")
    assert found == Failure(
        "the process died without a result, exit code 1: ValueError: of all things"
    )


@pytest.mark.torch
@pytest.mark.parametrize("program", ["plain", *(its for its in PROGRAMS if "fsdp" in its), "ddp"])
def test_real_processes_train(program: str) -> None:
    ranks = PROGRAMS[program].gpus
    found = run_program_apart(replace(TINY, program=program, ranks=ranks))
    assert isinstance(found, ProgramResult), found
    assert len(found.step_seconds) == 2
    assert len(found.losses) == 3 * ranks
    parameters = found.parameters.split()
    assert len(parameters) == ranks
    # A copy each, or a part each.
    assert len(set(parameters)) == (2 if "fsdp" in program else 1)
    assert len(set(found.losses)) == len(found.losses)


@pytest.mark.torch
def test_what_goes_wrong_in_a_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = run_program_apart(replace(TINY, device="cuda"))
    assert found == Failure("PyTorch finds no CUDA device; training under a plan needs one")


@pytest.mark.gpu
@pytest.mark.parametrize("program", ["plain", "accumulate"])
def test_a_plan_serves_a_program_with_the_same_bits(program: str) -> None:
    made = study()
    settings = ProgramSettings(scale=Scale.QUICK, timed_steps=4)
    study_programs(find_programs([program]), settings, made, lambda _: None, lambda: None)
    findings = made.findings[program]
    assert not findings.failures
    bits = [check.bits for check in findings.checks.values() if isinstance(check, ProgramResult)]
    assert len(bits) == len(Allocator)
    assert len(set(bits)) == 1
    (planned,) = findings.timed(Allocator.PLANNED)
    assert planned.peaks is not None
    assert planned.fallback_share is not None
    assert planned.fallback_share < 0.5
