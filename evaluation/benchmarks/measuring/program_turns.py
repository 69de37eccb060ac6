"""Programs under every allocator: bits side by side, then time and memory in turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial

from evaluation.benchmarks.measuring.program_workers import WaitingProgram, waiting_program
from evaluation.benchmarks.measuring.side_by_side import side_by_side
from evaluation.benchmarks.programs.program_list import Program
from evaluation.benchmarks.programs.program_result import ProgramAnswer
from evaluation.benchmarks.programs.program_specification import ProgramSpecification, Scale
from evaluation.benchmarks.programs.program_study import ProgramFindings, ProgramStudy
from gpu_runtime.training.run_specification import JUDGED, Allocator, Purpose

# Steps of a check after those in which kinds of step are learnt.
CHECKED_STEPS = 4
# Of programs on several GPUs, whose streams wait for each other.
PROFILED_STEPS = 2

Start = Callable[[ProgramSpecification], AbstractContextManager[WaitingProgram]]
Listen = Callable[[ProgramSpecification], None]


@dataclass(frozen=True)
class ProgramSettings:
    """How much is run of each program."""

    scale: Scale = Scale.FULL
    # Bits do not depend on how many layers there are.
    checked_scale: Scale = Scale.QUICK
    # Of each allocator, and the steps that are timed in each.
    turns: int = 5
    turn_steps: int = 4
    # Programs that are built and warmed up at the same time.
    programs_at_once: int = 1
    checks_at_once: int = 4
    # Who runs beside a plan and PyTorch's own.
    online: tuple[Allocator, ...] = ()
    device: str = "cuda"

    @property
    def allocators(self) -> tuple[Allocator, ...]:
        """All under which a program is run, in their order."""
        return (*JUDGED, *self.online)


def study_programs(
    programs: Sequence[Program],
    settings: ProgramSettings,
    study: ProgramStudy,
    listen: Listen,
    has_more: Callable[[], None],
    start: Start = waiting_program,
) -> None:
    """Run every program under every allocator; the study is filled as results come.

    What listens is called with each run that begins or has its turn, and the other call is made
    when a program has been measured, so that an interrupt leaves what there is.

    Note: why turns. Steps of two processes would share the device's time, so they take it one after
    the other. A machine that other people use is now faster, now slower, for minutes: whole runs
    one after the other differ by that. So the processes of a program are built and warmed up
    at the same time, and then have short turns, in the order of the allocators and back again, in
    which every other one waits with an idle device and no plan in the making; a turn is compared
    with the same turn of the others. While turns are taken, processes of the next program only
    import, where no more programs are wanted at once.
    """
    checks = [_check(program, settings, its) for program in programs for its in settings.allocators]
    findings = {program.name: ProgramFindings() for program in programs}
    jobs = [partial(_run_to_end, its, start) for its in checks]
    for number, answer in side_by_side(jobs, settings.checks_at_once):
        its = checks[number]
        listen(its)
        findings[its.program].checks[its.allocator] = answer
    with ExitStack() as every:
        started: deque[list[_TimedRun]] = deque()
        pending = deque(programs)
        for program in programs:
            while pending and len(started) <= settings.programs_at_once:
                started.append(
                    [
                        _TimedRun(its, start, every.enter_context(ExitStack()))
                        for its in _timed(pending.popleft(), settings)
                    ]
                )
            for runs in list(started)[: settings.programs_at_once]:
                for run in runs:
                    run.begin(listen)
            runs = started.popleft()
            findings[program.name].timings = _take_turns(runs, settings.turns, listen)
            study.findings[program.name] = findings[program.name]
            has_more()


class _TimedRun:
    """A run whose processes live until it has an answer, or to the end of a context."""

    def __init__(
        self, specification: ProgramSpecification, start: Start, context: ExitStack
    ) -> None:
        self.specification = specification
        self.answer: ProgramAnswer | None = None
        self._context = context
        self._processes = context.enter_context(start(specification))
        self._has_begun = False

    def begin(self, listen: Listen) -> None:
        """Let it go to its first turn, beside others; it does so once."""
        if not self._has_begun:
            self._has_begun = True
            listen(self.specification)
            self._processes.begin()

    def wait_for_pause(self) -> None:
        """Wait until it can have its turn."""
        self._keep(self._processes.wait_for_pause())

    def take_turn(self, listen: Listen) -> None:
        """Let it have its turn, and wait until that is over."""
        if self.answer is None:
            listen(self.specification)
            self._processes.go_on()
            self.wait_for_pause()

    def finish(self) -> ProgramAnswer:
        """Let it do what is left after its last turn."""
        if self.answer is None:
            self._processes.go_on()
            self._keep(self._processes.answer())
        assert self.answer is not None
        return self.answer

    def _keep(self, answer: ProgramAnswer | None) -> None:
        """Keep what may be an answer; it ends what still runs of a run that failed."""
        if answer is not None:
            self.answer = answer
            self._context.close()


def _take_turns(
    runs: Sequence[_TimedRun], turns: int, listen: Listen
) -> dict[Allocator, ProgramAnswer]:
    """Wait for runs that have begun, let them have their turns, and return their answers."""
    for run in runs:
        run.wait_for_pause()
    for turn in range(turns):
        for run in runs if turn % 2 == 0 else reversed(runs):
            run.take_turn(listen)
    return {run.specification.allocator: run.finish() for run in runs}


def _check(program: Program, settings: ProgramSettings, its: Allocator) -> ProgramSpecification:
    return ProgramSpecification(
        Purpose.CHECK,
        its,
        program.name,
        settings.checked_scale,
        program.warm_up,
        turns=1,
        turn_steps=CHECKED_STEPS,
        device=settings.device,
        ranks=program.gpus,
    )


def _timed(program: Program, settings: ProgramSettings) -> list[ProgramSpecification]:
    return [
        ProgramSpecification(
            Purpose.TIME,
            its,
            program.name,
            settings.scale,
            program.warm_up,
            settings.turns,
            settings.turn_steps,
            PROFILED_STEPS if program.gpus > 1 else 0,
            device=settings.device,
            ranks=program.gpus,
        )
        for its in settings.allocators
    ]


def _run_to_end(specification: ProgramSpecification, start: Start) -> ProgramAnswer:
    with start(specification) as processes:
        processes.begin()
        return processes.answer()
