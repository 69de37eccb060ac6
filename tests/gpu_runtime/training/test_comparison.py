"""Checks, then turns: in which order, who waits meanwhile, and what is kept whatever happens."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.comparison import (
    AllocatorComparison,
    check_bits,
    time_in_turns,
    under,
)
from gpu_runtime.training.run_processes import RunProcesses
from gpu_runtime.training.run_result import Answer, Failure
from gpu_runtime.training.training_run import (
    JUDGED,
    ONLINE,
    Allocator,
    Purpose,
    TrainingRun,
    model_run,
)
from planners.errors import GaplessError
from tests.gpu_runtime.training.run_results import CHECK, MODEL, PLAN, TIME, succeed

CHECKED = model_run(Purpose.CHECK, MODEL)
TIMED = replace(model_run(Purpose.TIME, MODEL), turns=5)
Say = Callable[[TrainingRun], Answer | None]


class StandIn(RunProcesses):
    """Processes of a run that note what they are told; after so many turns one has an answer."""

    def __init__(self, run: TrainingRun, made: Processes) -> None:
        super().__init__((), ())
        self._run, self._made = run, made
        self._turns_left = made.turns_to_failure.get(run.allocator, 99)

    def begin(self) -> None:
        self._made.note("begin", self._run)

    def wait_for_pause(self) -> Answer | None:
        self._made.note("pause", self._run)
        self._turns_left -= 1
        return self.answer() if self._turns_left < 0 else None

    def go_on(self) -> None:
        self._made.note("go on", self._run)

    def answer(self) -> Answer:
        self._made.note("answer", self._run)
        said = self._made.say(self._run)
        return succeed(self._run) if said is None else said


class Processes:
    """Stand-ins that are started, run and ended, each of which is noted."""

    def __init__(
        self, say: Say = lambda _: None, turns_to_failure: dict[Allocator, int] | None = None
    ) -> None:
        self.say = say
        self.turns_to_failure = turns_to_failure or {}
        self.events: list[tuple[str, TrainingRun]] = []

    def note(self, event: str, run: TrainingRun) -> None:
        self.events.append((event, run))

    @contextmanager
    def start(self, run: TrainingRun) -> Iterator[RunProcesses]:
        self.note("start", run)
        try:
            yield StandIn(run, self)
        finally:
            self.note("end", run)

    def told(self) -> list[str]:
        """What happened, by the letters of program and allocator; answers left out."""
        return [
            f"{event} {run.program[0]}{run.allocator[0]}"
            for event, run in self.events
            if event != "answer"
        ]


def compare(
    processes: Processes, allocators: tuple[Allocator, ...] = JUDGED, at_once: int = 1
) -> AllocatorComparison:
    findings = AllocatorComparison()
    check_bits(under(allocators, CHECKED), findings, lambda _: None, at_once, processes.start)
    for answers in time_in_turns([under(allocators, TIMED)], lambda _: None, start=processes.start):
        for run, answer in answers:
            findings.keep(run, answer)
    return findings


def test_every_run_is_told_and_every_answer_lands_where_it_belongs() -> None:
    told: list[str] = []
    processes, findings = Processes(), AllocatorComparison()
    check_bits(
        under(JUDGED, CHECKED), findings, lambda run: told.append(run.label), start=processes.start
    )
    assert told == ["check default", "check expandable", "check planned"]
    findings = compare(Processes())
    assert findings.passed
    assert findings.agreement is not None
    assert findings.agreement.compared == JUDGED
    assert [*findings.timings] == [*JUDGED]


def refuses_strict(allocator: Allocator) -> Say:
    def say(run: TrainingRun) -> Answer | None:
        if run.purpose is Purpose.CHECK and run.allocator is allocator and run.strict:
            return Failure("no", undetermined="max_pool_backward")
        return None

    return say


def test_without_a_deterministic_algorithm_every_check_is_made_again() -> None:
    processes = Processes(refuses_strict(Allocator.EXPANDABLE))
    findings = compare(processes)
    begun = [(run.allocator, run.strict) for event, run in processes.events if event == "begin"]
    assert begun[:5] == [
        (Allocator.DEFAULT, True), (Allocator.EXPANDABLE, True),
        (Allocator.DEFAULT, False), (Allocator.EXPANDABLE, False), (Allocator.PLANNED, False),
    ]  # fmt: skip
    assert findings.passed
    assert findings.undetermined == ("max_pool_backward",)


@pytest.mark.parametrize("dies_strict", [True, False])
def test_strict_checks_are_compared_only_with_strict_ones(dies_strict: bool) -> None:
    def say(run: TrainingRun) -> Answer | None:
        if run.label == "check default" and run.strict == dies_strict:
            return Failure("died")
        return refuses_strict(Allocator.EXPANDABLE)(run)

    findings = compare(Processes(say))
    assert findings.failures == ({} if dies_strict else {"check default": "died"})
    left = JUDGED if dies_strict else JUDGED[1:]
    assert [*findings.checks] == [*left]


def test_an_operator_that_is_refused_again_is_a_failure() -> None:
    findings = compare(Processes(lambda run: Failure("no", undetermined="op")
                                 if run.purpose is Purpose.CHECK else None))  # fmt: skip
    assert set(findings.failures) == {"check default", "check expandable", "check planned"}
    assert not findings.passed


def test_a_run_that_fails_does_not_stop_the_others() -> None:
    findings = compare(Processes(lambda run: Failure("out of memory: much")
                                 if run.label == "time default" else None))  # fmt: skip
    assert findings.failures == {"time default": "out of memory: much"}
    assert set(findings.timings) == {Allocator.EXPANDABLE, Allocator.PLANNED}
    assert not findings.passed


def test_a_general_failure_ends_the_comparison() -> None:
    processes = Processes(lambda _: Failure("no CUDA device", is_general=True))
    with pytest.raises(GaplessError, match="no CUDA device"):
        compare(processes)
    assert processes.told() == ["start bd", "begin bd", "end bd"]


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize(
    "plan", [changed(PLAN, planned_steps=0), changed(PLAN, planned_requests=0), None]
)
def test_a_plan_that_served_nothing_does_not_pass(
    purpose: Purpose, plan: MemoryReport | None
) -> None:
    def unplanned(run: TrainingRun) -> Answer | None:
        if run.purpose is not purpose or run.allocator is not Allocator.PLANNED:
            return None
        return replace(CHECK if purpose is Purpose.CHECK else TIME, plan=plan)

    findings = compare(Processes(unplanned))
    assert findings.nothing_was_planned
    assert not findings.passed


def test_different_bits_do_not_pass() -> None:
    findings = compare(Processes(lambda run: replace(CHECK, buffers={}, plan=PLAN)
                                 if run.label == "check planned" else None))  # fmt: skip
    assert not findings.passed
    assert not findings.failures


def test_one_allocator_alone_has_nothing_to_agree_with() -> None:
    findings = compare(Processes(), (Allocator.PLANNED,))
    assert findings.agreement is None
    assert findings.passed


def test_checks_run_together_and_keep_their_order() -> None:
    together = threading.Barrier(3)

    def check(run: TrainingRun) -> Answer | None:
        if run.purpose is Purpose.CHECK:
            together.wait(30)
        return None

    assert [*compare(Processes(check), at_once=3).checks] == [*JUDGED]


def test_an_error_of_ours_in_a_check_is_raised() -> None:
    def refuse(_: TrainingRun) -> Answer:
        raise OSError("no more processes")

    with pytest.raises(OSError, match="no more processes"):
        compare(Processes(refuse), at_once=3)


def test_ctrl_c_does_not_wait_for_checks_side_by_side() -> None:
    """Children that never answer: a parent that waits for them ends by the time limit alone."""
    code = (
        "import _thread, threading\n"
        "from gpu_runtime.training.comparison import side_by_side\n"
        "from planners.command_line.ending import leave, run_in_order\n"
        "together = threading.Barrier(3, _thread.interrupt_main)\n"
        "def never():\n"
        "    together.wait()\n"
        "    threading.Event().wait()\n"
        "leave(run_in_order(lambda: len(list(side_by_side([never] * 3, 3)))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def turn(run: str) -> list[str]:
    return [f"go on {run}", f"pause {run}"]


def measured(
    processes: Processes, programs: str = "p", allocators: tuple[Allocator, ...] = JUDGED,
    turns: int = 3, at_once: int = 1,
) -> list[str]:  # fmt: skip
    groups = [
        under(allocators, replace(TIMED, program=program, turns=turns)) for program in programs
    ]
    for _ in time_in_turns(groups, lambda _: None, at_once, processes.start):
        pass
    return processes.told()


def test_allocators_have_turns_there_and_back_between_two_waits() -> None:
    runs = ("pd", "pe", "pp")
    assert measured(Processes()) == [
        *(f"start {run}" for run in runs),
        *(f"begin {run}" for run in runs),
        *(f"pause {run}" for run in runs),
        *(event for run in (*runs, *reversed(runs), *runs) for event in turn(run)),
        *(event for run in runs for event in (f"go on {run}", f"end {run}")),
    ]


def test_online_allocators_have_turns_as_the_others() -> None:
    events = measured(Processes(), allocators=(*JUDGED, *ONLINE), turns=1)
    assert [event for event in events if event.startswith("go on")] == [
        f"go on {run}" for run in ("pd", "pe", "pp", "pg", "pv", "ps")
    ] * 2


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_next_programs_only_import_unless_more_are_wanted_at_once(at_once: int) -> None:
    events = measured(Processes(), "pr", at_once=at_once)
    first_turn, last_end = events.index("go on pd"), events.index("end pp")
    for run in ("rd", "re", "rp"):
        assert events.index(f"start {run}") < first_turn
        begun = events.index(f"begin {run}")
        assert begun < first_turn if at_once > 1 else begun > last_end
        assert events.count(f"begin {run}") == 1


@pytest.mark.parametrize("turns_to_failure", [0, 1, 3])
def test_a_run_that_fails_is_ended_and_the_others_go_on(turns_to_failure: int) -> None:
    processes = Processes(turns_to_failure={Allocator.EXPANDABLE: turns_to_failure})
    events = measured(processes, turns=5)
    assert events.count("go on pe") == turns_to_failure
    assert events.count("go on pd") == events.count("go on pp") == 5 + 1
    assert events[events.index("end pe") - 1] == "pause pe"


def test_processes_that_wait_are_ended_with_the_one_that_breaks() -> None:
    def break_off(_: TrainingRun) -> Answer:
        raise KeyboardInterrupt

    processes = Processes(break_off, {Allocator.PLANNED: 2})
    with pytest.raises(KeyboardInterrupt):
        measured(processes, "pr")
    events = [event for event, _ in processes.events]
    assert events.count("start") == events.count("end") == 2 * len(JUDGED)
