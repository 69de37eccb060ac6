"""Programs under every allocator: bits side by side, then time and memory one after the other."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from evaluation.benchmarks.measuring.program_workers import Ask, waiting_program
from evaluation.benchmarks.programs.program_list import Program
from evaluation.benchmarks.programs.program_result import ProgramAnswer
from evaluation.benchmarks.programs.program_specification import ProgramSpecification, Scale
from evaluation.benchmarks.programs.program_study import ProgramFindings, ProgramStudy
from gpu_runtime.training.run_specification import Allocator, Purpose

# Steps of a check after those in which kinds of step are learnt.
CHECKED_STEPS = 4
# Processes that import while another one is measured.
STARTED_AHEAD = 2

Start = Callable[[ProgramSpecification], AbstractContextManager[Ask]]


@dataclass(frozen=True)
class ProgramSettings:
    """How much is run of each program."""

    scale: Scale = Scale.FULL
    # Bits do not depend on how many layers there are.
    checked_scale: Scale = Scale.QUICK
    timed_steps: int = 20
    # Of timed processes; every other round has the allocators in the opposite order.
    rounds: int = 1
    checks_at_once: int = 4
    device: str = "cuda"


def study_programs(
    programs: Sequence[Program],
    settings: ProgramSettings,
    study: ProgramStudy,
    listen: Callable[[ProgramSpecification], None],
    has_more: Callable[[], None],
    start: Start = waiting_program,
) -> None:
    """Run every program under every allocator; the study is filled as results come.

    What listens is called with each run that begins, and the other call is made when a program has
    been measured, so that an interrupt leaves what there is.

    Note: why one after the other. Steps of two processes would share the device's time, and a plan
    that is made beside the training would be made in the time of others. So each timed process is
    alone from its first step to its last, and the next ones do no more than import meanwhile.
    """
    checks = [_check(program, settings, its) for program in programs for its in Allocator]
    findings = {program.name: ProgramFindings() for program in programs}
    for specification, answer in _side_by_side(checks, settings.checks_at_once, listen, start):
        findings[specification.program].checks[specification.allocator] = answer
    timed = [its for program in programs for its in _timed(program, settings)]
    for position, (specification, answer) in enumerate(_in_turn(timed, listen, start)):
        its = findings[specification.program]
        its.timings.setdefault(specification.allocator, []).append(answer)
        study.findings[specification.program] = its
        is_last = position + 1 == len(timed)
        if is_last or timed[position + 1].program != specification.program:
            has_more()


def _check(program: Program, settings: ProgramSettings, its: Allocator) -> ProgramSpecification:
    return ProgramSpecification(
        Purpose.CHECK,
        its,
        program.name,
        settings.checked_scale,
        program.warm_up,
        CHECKED_STEPS,
        device=settings.device,
        ranks=program.gpus,
    )


def _timed(program: Program, settings: ProgramSettings) -> Iterator[ProgramSpecification]:
    for number in range(settings.rounds):
        for its in tuple(Allocator) if number % 2 == 0 else reversed(Allocator):
            yield ProgramSpecification(
                Purpose.TIME,
                its,
                program.name,
                settings.scale,
                program.warm_up,
                settings.timed_steps,
                device=settings.device,
                ranks=program.gpus,
            )


def _in_turn(
    specifications: Sequence[ProgramSpecification],
    listen: Callable[[ProgramSpecification], None],
    start: Start,
) -> Iterator[tuple[ProgramSpecification, ProgramAnswer]]:
    """Ask one run after the other, with the next ones waiting for their turn."""
    waiting: deque[tuple[ExitStack, Ask]] = deque()
    with ExitStack() as every:
        for position, specification in enumerate(specifications):
            started = position + len(waiting)
            for ahead in specifications[started : position + 1 + STARTED_AHEAD]:
                own = every.enter_context(ExitStack())
                waiting.append((own, own.enter_context(start(ahead))))
            own, ask = waiting.popleft()
            listen(specification)
            with own:
                answer = ask()
            yield specification, answer


def _side_by_side(
    specifications: Sequence[ProgramSpecification],
    at_once: int,
    listen: Callable[[ProgramSpecification], None],
    start: Start,
) -> Iterator[tuple[ProgramSpecification, ProgramAnswer]]:
    """Do so many runs at the same time; an error of one is raised here."""
    pending: queue.SimpleQueue[ProgramSpecification] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[ProgramSpecification, ProgramAnswer | BaseException]]
    done = queue.SimpleQueue()
    for specification in specifications:
        pending.put(specification)

    def work() -> None:
        while True:
            try:
                its = pending.get_nowait()
            except queue.Empty:
                return
            try:
                with start(its) as ask:
                    done.put((its, ask()))
            except BaseException as error:
                done.put((its, error))

    for _ in range(at_once):
        # Not of a pool, which Ctrl-C would have to wait for: workers end with their parent.
        threading.Thread(target=work, daemon=True).start()
    for _ in specifications:
        its, answer = done.get()
        if isinstance(answer, BaseException):
            raise answer
        listen(its)
        yield its, answer
