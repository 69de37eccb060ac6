"""The same training under every allocator: bits are checked, then time and memory are measured."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.agreement import Agreement, compare
from gpu_runtime.training.run_processes import Start, answer_of, waiting_run
from gpu_runtime.training.run_result import Answer, Failure, RunResult
from gpu_runtime.training.training_run import Allocator, Purpose, TrainingRun
from planners.errors import GaplessError
from planners.processes.side_by_side import side_by_side

# Called with each run that begins or has its turn.
Listen = Callable[[TrainingRun], None]


@dataclass
class AllocatorComparison:
    """What was found so far of one program, by allocator in the order in which answers came."""

    checks: dict[Allocator, RunResult] = field(default_factory=dict)
    timings: dict[Allocator, RunResult] = field(default_factory=dict)
    # What went wrong, by the label of the run.
    failures: dict[str, str] = field(default_factory=dict)
    # Operators for want of whose deterministic algorithm the checks were not strict.
    undetermined: tuple[str, ...] = ()

    @property
    def agreement(self) -> Agreement | None:
        """Which bits are the same; none before two runs can be compared."""
        return compare(self.checks) if len(self.checks) > 1 else None

    @property
    def nothing_was_planned(self) -> bool:
        """Whether the plan served nothing of a run that it should have served."""
        return any(
            plan is None or not plan.planned_steps or not plan.planned_requests
            for _, plan in self._plans()
        )

    def reasons_without_plan(self) -> list[tuple[Purpose, str]]:
        """Return why there is no plan, for each purpose whose run says so."""
        return [(purpose, plan.reason) for purpose, plan in self._plans() if plan and plan.reason]

    def _plans(self) -> list[tuple[Purpose, MemoryReport | None]]:
        planned = {
            Purpose.CHECK: self.checks.get(Allocator.PLANNED),
            Purpose.TIME: self.timings.get(Allocator.PLANNED),
        }
        return [(purpose, result.plan) for purpose, result in planned.items() if result is not None]

    @property
    def passed(self) -> bool:
        """Whether everything ran, the same bits came out, and the plan served steps."""
        agreement = self.agreement
        agrees = agreement is None or agreement.is_bit_identical
        return agrees and not self.failures and not self.nothing_was_planned

    def keep(self, run: TrainingRun, answer: Answer) -> None:
        """Take an answer in; GaplessError where every other run would fail alike."""
        if isinstance(answer, Failure):
            if answer.is_general:
                raise GaplessError(answer.message)
            self.failures[run.label] = answer.message
        elif run.purpose is Purpose.CHECK:
            self.checks[run.allocator] = answer
            self.undetermined = tuple(sorted({*self.undetermined, *answer.undetermined}))
        else:
            self.timings[run.allocator] = answer


def under(allocators: Sequence[Allocator], run: TrainingRun) -> list[TrainingRun]:
    """Return a run under each of some allocators."""
    return [replace(run, allocator=allocator) for allocator in allocators]


def check_bits(
    runs: Sequence[TrainingRun],
    findings: AllocatorComparison,
    listen: Listen,
    at_once: int = 1,
    start: Start = waiting_run,
) -> None:
    """Do the checks of a program, so many at the same time; the first is what others compare with.

    Where an operator has no deterministic algorithm, all are made again without insisting on one:
    what was strict is not compared with what is not.
    """
    jobs = [partial(_check_one, run, listen, start) for run in runs]
    for number, answer in side_by_side(jobs, at_once):
        if isinstance(answer, Failure) and answer.undetermined and runs[number].strict:
            findings.checks.clear()
            findings.failures.clear()
            findings.undetermined = (answer.undetermined,)
            again = [replace(run, strict=False) for run in runs]
            check_bits(again, findings, listen, at_once, start)
            return
        findings.keep(runs[number], answer)
    order = [run.allocator for run in runs]
    findings.checks = {its: findings.checks[its] for its in order if its in findings.checks}


def _check_one(run: TrainingRun, listen: Listen, start: Start) -> Answer:
    listen(run)
    return answer_of(run, start)


def time_in_turns(
    groups: Sequence[Sequence[TrainingRun]],
    listen: Listen,
    at_once: int = 1,
    start: Start = waiting_run,
) -> Iterator[list[tuple[TrainingRun, Answer]]]:
    """Yield the answers of each group of runs, which have their turns one after the other.

    Note: why turns. Steps of two processes would share the device's time, so they take it one after
    the other. A machine that other people use is now faster, now slower, for minutes: whole runs
    one after the other differ by that. So the processes of a group are built and warmed up at the
    same time, and then have short turns, in the order of the runs and back again, in which every
    other one waits with an idle device and no plan in the making; a turn is compared with the same
    turn of the others. While turns are taken, processes of the next group only import, where no
    more groups are wanted at once.
    """
    with ExitStack() as every:
        started: deque[list[_TimedRun]] = deque()
        pending = deque(groups)
        for _ in groups:
            while pending and len(started) <= at_once:
                started.append(
                    [
                        _TimedRun(run, start, every.enter_context(ExitStack()))
                        for run in pending.popleft()
                    ]
                )
            for runs in list(started)[:at_once]:
                for its in runs:
                    its.begin(listen)
            yield _take_turns(started.popleft(), listen)


class _TimedRun:
    """A run whose processes live until it has an answer, or to the end of a context."""

    def __init__(self, run: TrainingRun, start: Start, context: ExitStack) -> None:
        self.run = run
        self.answer: Answer | None = None
        self._context = context
        self._processes = context.enter_context(start(run))
        self._has_begun = False

    def begin(self, listen: Listen) -> None:
        """Let it go to its first turn, beside others; it does so once."""
        if not self._has_begun:
            self._has_begun = True
            listen(self.run)
            self._processes.begin()

    def wait_for_pause(self) -> None:
        """Wait until it can have its turn."""
        self._keep(self._processes.wait_for_pause())

    def take_turn(self, listen: Listen) -> None:
        """Let it have its turn, and wait until that is over."""
        if self.answer is None:
            listen(self.run)
            self._processes.go_on()
            self.wait_for_pause()

    def finish(self) -> Answer:
        """Let it do what is left after its last turn."""
        if self.answer is None:
            self._processes.go_on()
            self._keep(self._processes.answer())
        assert self.answer is not None
        return self.answer

    def _keep(self, answer: Answer | None) -> None:
        """Keep what may be an answer; it ends what still runs of a run that failed."""
        if answer is not None:
            self.answer = answer
            self._context.close()


def _take_turns(runs: Sequence[_TimedRun], listen: Listen) -> list[tuple[TrainingRun, Answer]]:
    """Wait for runs that have begun, let them have their turns, and return their answers."""
    for its in runs:
        its.wait_for_pause()
    for turn in range(max((its.run.turns for its in runs), default=0)):
        for its in runs if turn % 2 == 0 else reversed(runs):
            its.take_turn(listen)
    return [(its.run, its.finish()) for its in runs]
