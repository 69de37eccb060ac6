"""The same training under every allocator: bits are checked, then time and memory are measured."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
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

# Called with each run that begins or has its turn.
Listen = Callable[[TrainingRun], None]


@dataclass
class AllocatorComparison:
    """The findings about one program so far, by allocator in the order of the answers."""

    checks: dict[Allocator, RunResult] = field(default_factory=dict)
    timings: dict[Allocator, RunResult] = field(default_factory=dict)
    # Error messages, by the label of the run.
    failures: dict[str, str] = field(default_factory=dict)
    # Operators without a deterministic algorithm, because of which the checks were not strict.
    undetermined: tuple[str, ...] = ()

    @property
    def agreement(self) -> Agreement | None:
        """The comparison of the checks; None before two of them have ended."""
        return compare(self.checks) if len(self.checks) > 1 else None

    @property
    def nothing_was_planned(self) -> bool:
        """Return True if the plan served no request of a run that it should have served."""
        return any(
            plan is None or not plan.planned_steps or not plan.planned_requests
            for _, plan in self._plans()
        )

    def reasons_without_plan(self) -> list[tuple[Purpose, str]]:
        """Return the reason for no plan, for each purpose whose run has one."""
        return [(purpose, plan.reason) for purpose, plan in self._plans() if plan and plan.reason]

    def _plans(self) -> list[tuple[Purpose, MemoryReport | None]]:
        planned = {
            Purpose.CHECK: self.checks.get(Allocator.PLANNED),
            Purpose.TIME: self.timings.get(Allocator.PLANNED),
        }
        return [(purpose, result.plan) for purpose, result in planned.items() if result is not None]

    @property
    def passed(self) -> bool:
        """Return True if everything ran, the same bits came out, and the plan served steps."""
        agreement = self.agreement
        agrees = agreement is None or agreement.is_bit_identical
        return agrees and not self.failures and not self.nothing_was_planned

    def keep(self, run: TrainingRun, answer: Answer) -> None:
        """Keep an answer; GaplessError if every other run would fail alike."""
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
    """Make the checks of a program, `at_once` of them at a time; the first is the reference.

    If an operator has no deterministic algorithm, all checks are made again without strictness: a
    strict check is not comparable with another.
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


def side_by_side(
    jobs: Sequence[Callable[[], Answer]], at_once: int
) -> Iterator[tuple[int, Answer]]:
    """Yield the number of each job and its answer as they end; one at a time runs in this thread.

    After Ctrl-C nobody waits for the jobs: the process ends at once, and their processes with it.
    """
    if at_once == 1:
        yield from ((number, job()) for number, job in enumerate(jobs))
        return
    pool = ThreadPoolExecutor(at_once)
    numbers = {pool.submit(job): number for number, job in enumerate(jobs)}
    try:
        for done in as_completed(numbers):
            yield numbers[done], done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


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

    Note: why turns.
    Rationale. Steps of two processes at a time would share the device. The speed of a machine that
    others use drifts over minutes, so whole runs one after the other differ by that drift.
    Approach. The processes of a group are built and warmed up at the same time. They then have
    short turns, in the order of the runs and back again. During a turn all other processes of the
    group wait with an idle device and no plan in the making. A turn is compared with the same turn
    of the other runs.
    Limits. Processes of the next group import packages meanwhile, unless more groups run at once.
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
        """Let the run go to its first turn, beside others; a second call does nothing."""
        if not self._has_begun:
            self._has_begun = True
            listen(self.run)
            self._processes.begin()

    def wait_for_pause(self) -> None:
        self._keep(self._processes.wait_for_pause())

    def take_turn(self, listen: Listen) -> None:
        if self.answer is None:
            listen(self.run)
            self._processes.go_on()
            self.wait_for_pause()

    def finish(self) -> Answer:
        """Let the run do its work after the last turn, and return its answer."""
        if self.answer is None:
            self._processes.go_on()
            self._keep(self._processes.answer())
        assert self.answer is not None
        return self.answer

    def _keep(self, answer: Answer | None) -> None:
        """Keep an answer, if there is one, and end the processes of the run."""
        if answer is not None:
            self.answer = answer
            self._context.close()


def _take_turns(runs: Sequence[_TimedRun], listen: Listen) -> list[tuple[TrainingRun, Answer]]:
    """Return the answers of runs that have begun, after all their turns."""
    for its in runs:
        its.wait_for_pause()
    for turn in range(max((its.run.turns for its in runs), default=0)):
        for its in runs if turn % 2 == 0 else reversed(runs):
            its.take_turn(listen)
    return [(its.run, its.finish()) for its in runs]
