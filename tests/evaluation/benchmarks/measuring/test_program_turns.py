"""In which order programs are run, who waits meanwhile, and the processes that run them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from evaluation.benchmarks.measuring import program_workers
from evaluation.benchmarks.measuring.program_turns import ProgramSettings, study_programs
from evaluation.benchmarks.measuring.program_workers import WaitingProgram, waiting_program
from evaluation.benchmarks.programs.program_list import PROGRAMS, find_programs
from evaluation.benchmarks.programs.program_result import ProgramAnswer, ProgramResult
from evaluation.benchmarks.programs.program_specification import ProgramSpecification, Scale
from evaluation.benchmarks.programs.program_study import ProgramStudy
from gpu_runtime.training.run_specification import JUDGED, ONLINE, Allocator, Purpose
from gpu_runtime.training.worker_result import Failure
from tests.evaluation.benchmarks.programs.made_up_studies import CHECK, study

TWO = find_programs(["plain", "random-lengths"])
SETTINGS = ProgramSettings(checks_at_once=3)
# Timed runs of the first, as events name them.
PLAIN = ("pd", "pe", "pp")
TINY = ProgramSpecification(
    Purpose.CHECK, Allocator.DEFAULT, "plain", Scale.TINY, 1, 1, 1, device="cpu"
)
Answer = Callable[[ProgramSpecification], ProgramAnswer]


class StandIn(WaitingProgram):
    """Processes of a run that note what they are told; after so many turns one has an answer."""

    def __init__(
        self, specification: ProgramSpecification, events: list[tuple[str, ProgramSpecification]],
        answer: Answer, turns_to_failure: int,
    ) -> None:  # fmt: skip
        super().__init__((), ())
        self.its, self.events = specification, events
        self._answer = answer
        self._turns_left = turns_to_failure

    def begin(self) -> None:
        self.events.append(("begin", self.its))

    def wait_for_pause(self) -> ProgramAnswer | None:
        self.events.append(("pause", self.its))
        self._turns_left -= 1
        return self._answer(self.its) if self._turns_left < 0 else None

    def go_on(self) -> None:
        self.events.append(("go on", self.its))

    def answer(self) -> ProgramAnswer:
        self.events.append(("answer", self.its))
        return self._answer(self.its)


class Processes:
    """Stand-ins that are started, run and ended, each of which is noted."""

    def __init__(self, answer: Answer, turns_to_failure: dict[Allocator, int] | None = None):
        self.answer = answer
        self.events: list[tuple[str, ProgramSpecification]] = []
        self._turns_to_failure = turns_to_failure or {}

    @contextmanager
    def start(self, specification: ProgramSpecification) -> Iterator[WaitingProgram]:
        self.events.append(("start", specification))
        turns = self._turns_to_failure.get(specification.allocator, 99)
        try:
            yield StandIn(specification, self.events, self.answer, turns)
        finally:
            self.events.append(("end", specification))

    def of(self, purpose: Purpose) -> list[tuple[str, ProgramSpecification]]:
        return [(event, its) for event, its in self.events if its.purpose is purpose]

    def timed(self) -> list[str]:
        """What happened to timed processes, by the letters of program and allocator."""
        timed = self.of(Purpose.TIME)
        return [f"{event} {its.program[0]}{its.allocator[0]}" for event, its in timed]


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
        for its in JUDGED:
            assert findings.checks[its] == Failure(f"{program}, check {its}")
            assert findings.timings[its] == Failure(f"{program}, time {its}")


def test_what_is_run_is_what_the_settings_say() -> None:
    processes = Processes(as_label)
    settings = ProgramSettings(turns=3, turn_steps=11, device="cpu")
    study_programs(
        [*TWO, PROGRAMS["ddp"]], settings, study(), lambda _: None, lambda: None, processes.start
    )
    found = {replace(its, allocator=Allocator.DEFAULT) for _, its in processes.events}
    check, time, cpu = Purpose.CHECK, Purpose.TIME, "cpu"
    full, quick, default = Scale.FULL, Scale.QUICK, Allocator.DEFAULT
    assert found == {
        ProgramSpecification(check, default, "plain", quick, 10, 1, 4, device=cpu),
        ProgramSpecification(time, default, "plain", full, 10, 3, 11, device=cpu),
        ProgramSpecification(check, default, "random-lengths", quick, 30, 1, 4, device=cpu),
        ProgramSpecification(time, default, "random-lengths", full, 30, 3, 11, device=cpu),
        ProgramSpecification(check, default, "ddp", quick, 10, 1, 4, device=cpu, ranks=2),
        ProgramSpecification(time, default, "ddp", full, 10, 3, 11, 2, device=cpu, ranks=2),
    }


def turn(run: str) -> list[str]:
    return [f"go on {run}", f"pause {run}"]


def test_allocators_have_turns_there_and_back_between_two_waits() -> None:
    processes = Processes(as_label)
    measure(processes, replace(SETTINGS, turns=3))
    events = processes.timed()
    first = [event for event in events if event.split()[-1][0] == "p"]
    assert first == [
        *(f"start {run}" for run in PLAIN),
        *(f"begin {run}" for run in PLAIN),
        *(f"pause {run}" for run in PLAIN),
        *(event for run in (*PLAIN, *reversed(PLAIN), *PLAIN) for event in turn(run)),
        *(event for run in PLAIN for event in (f"go on {run}", f"answer {run}", f"end {run}")),
    ]


def test_online_allocators_have_turns_as_the_others() -> None:
    processes = Processes(as_label)
    made, _ = measure(processes, replace(SETTINGS, turns=1, online=ONLINE))
    events = [event for event in processes.timed() if event.startswith("go on p")]
    assert events == [f"go on {run}" for run in (*PLAIN, "pg", "pv")] * 2
    for findings in made.findings.values():
        assert list(findings.timings) == [*JUDGED, *ONLINE]
        assert findings.checks.keys() == {*JUDGED, *ONLINE}


def test_the_next_programs_only_import_unless_more_are_wanted_at_once() -> None:
    for at_once in (1, 2):
        processes = Processes(as_label)
        measure(processes, replace(SETTINGS, programs_at_once=at_once))
        events = processes.timed()
        first_turn, last_end = events.index("go on pd"), events.index("end pp")
        for run in ("rd", "re", "rp"):
            assert events.index(f"start {run}") < first_turn
            begun = events.index(f"begin {run}")
            assert begun < first_turn if at_once > 1 else begun > last_end
            assert events.count(f"begin {run}") == 1


@pytest.mark.parametrize("turns_to_failure", [0, 1, 3])
def test_a_run_that_fails_is_ended_and_the_others_go_on(turns_to_failure: int) -> None:
    processes = Processes(as_label, {Allocator.EXPANDABLE: turns_to_failure})
    made, _ = measure(processes, replace(SETTINGS, turns=5))
    events = processes.timed()
    assert events.count("go on pe") == turns_to_failure
    assert events.count("go on pd") == events.count("go on pp") == 5 + 1
    assert events[events.index("end pe") - 1] == "pause pe"
    assert all(len(its.timings) == len(JUDGED) for its in made.findings.values())


def test_so_many_checks_run_at_the_same_time() -> None:
    together = threading.Barrier(3)

    def check(specification: ProgramSpecification) -> ProgramAnswer:
        if specification.purpose is Purpose.CHECK:
            together.wait(30)
        return CHECK

    made, _ = measure(Processes(check))
    assert made.findings["plain"].checks == dict.fromkeys(JUDGED, CHECK)


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

    processes = Processes(break_off, {Allocator.PLANNED: 2})
    with pytest.raises(KeyboardInterrupt):
        measure(processes)
    events = [event for event, _ in processes.of(Purpose.TIME)]
    assert events.count("start") == events.count("end") == 2 * len(JUDGED)


def run_apart(specification: ProgramSpecification) -> ProgramAnswer:
    with waiting_program(specification) as processes:
        processes.begin()
        return processes.answer()


def run_code(monkeypatch: pytest.MonkeyPatch, code: str, ranks: int = 1) -> ProgramAnswer:
    monkeypatch.setattr(program_workers, "COMMAND", (sys.executable, "-c", code))
    return run_apart(replace(TINY, ranks=ranks))


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


WAITS = "print('waits', flush=True)"
TOLD = "rank = f'rank {rank} {sys.stdin.readline().strip()}'"
FAILS = "print(json.dumps({'kind': 'failure', 'message': str(rank)}))"


@pytest.mark.parametrize(
    ("by_rank", "turns", "answer"),
    [
        ([[FAILS]], 0, "0"),
        ([[WAITS, TOLD, FAILS]], 1, "rank 0 go on"),
        ([[WAITS, TOLD, WAITS, TOLD, FAILS]], 2, "rank rank 0 go on go on"),
        ([[WAITS, TOLD, "sys.exit(3)"]], 1, "the process died without a result, exit code 3"),
        ([[WAITS, TOLD, WAITS, TOLD], [WAITS, TOLD, FAILS]], 1, "rank 1 go on"),
    ],
)
def test_processes_wait_for_each_turn(
    monkeypatch: pytest.MonkeyPatch, by_rank: list[list[str]], turns: int, answer: str
) -> None:
    code = "import json, sys\nrank = json.loads(sys.stdin.readline())['rank']"
    for rank, lines in enumerate(by_rank):
        code += "\n ".join([f"\nif rank == {rank}:", *lines])
        code += "\n sys.exit()"
    monkeypatch.setattr(program_workers, "COMMAND", (sys.executable, "-c", code))
    with waiting_program(replace(TINY, ranks=len(by_rank))) as processes:
        processes.begin()
        for _ in range(turns):
            assert processes.wait_for_pause() is None
            processes.go_on()
        assert processes.wait_for_pause() == Failure(answer)


def test_a_process_that_hangs_in_its_turn_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, time; sys.stdin.readline(); print('waits', flush=True); time.sleep(600)"
    monkeypatch.setattr(program_workers, "COMMAND", (sys.executable, "-c", code))
    with waiting_program(TINY) as processes:
        processes.begin()
        assert processes.wait_for_pause() is None
        monkeypatch.setattr(program_workers, "LIMIT_SECONDS", 0.2)
        processes.go_on()
        found = processes.wait_for_pause()
        assert found == Failure("the process was not done with its turn after 0.2 s")


def test_kernels_are_chosen_without_timing_them_in_every_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(program_workers, "COMMAND", (sys.executable, "-c", ENVIRONMENT))
    assert run_apart(replace(TINY, purpose=Purpose.TIME)) == Failure("0 0 1 None None")


@pytest.mark.torch
def test_real_processes_take_their_turns() -> None:
    timed = replace(TINY, purpose=Purpose.TIME, program="ddp", turns=2, profiled_steps=1, ranks=2)
    with waiting_program(timed) as processes:
        processes.begin()
        for _ in range(1 + timed.turns):
            assert processes.wait_for_pause() is None
            processes.go_on()
        found = processes.answer()
    assert isinstance(found, ProgramResult), found
    assert [len(turn) for turn in found.step_seconds] == [1, 1]
    # A processor has none.
    assert found.streams == ()


@pytest.mark.torch
@pytest.mark.parametrize("program", ["plain", *(its for its in PROGRAMS if "fsdp" in its), "ddp"])
def test_real_processes_train(program: str) -> None:
    ranks = PROGRAMS[program].gpus
    found = run_apart(replace(TINY, program=program, ranks=ranks))
    assert isinstance(found, ProgramResult), found
    assert [len(turn) for turn in found.step_seconds] == [1]
    assert len(found.losses) == 3 * ranks
    parameters = found.parameters.split()
    assert len(parameters) == ranks
    # A copy each, or a part each.
    assert len(set(parameters)) == (2 if "fsdp" in program else 1)
    assert len(set(found.losses)) == len(found.losses)


@pytest.mark.torch
def test_what_goes_wrong_in_a_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = run_apart(replace(TINY, device="cuda"))
    assert found == Failure("PyTorch finds no CUDA device; training under a plan needs one")


@pytest.mark.gpu
@pytest.mark.parametrize("program", ["plain", "accumulate"])
def test_a_plan_serves_a_program_with_the_same_bits(program: str) -> None:
    made = study()
    settings = ProgramSettings(scale=Scale.QUICK, turns=2, turn_steps=2)
    study_programs(find_programs([program]), settings, made, lambda _: None, lambda: None)
    findings = made.findings[program]
    assert not findings.failures
    bits = [check.bits for check in findings.checks.values() if isinstance(check, ProgramResult)]
    assert len(bits) == len(JUDGED)
    assert len(set(bits)) == 1
    planned = findings.timed(Allocator.PLANNED)
    assert planned is not None
    assert planned.peaks is not None
    assert planned.fallback_share is not None
    assert planned.fallback_share < 0.5
