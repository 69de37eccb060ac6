"""Verification: run a plan's schedule on real memory and see whether tensors keep their bytes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpu_runtime.verification.corruption import Corruption, CorruptionLedger
from gpu_runtime.verification.devices.device import Device, DeviceFigures, OpenDevice
from gpu_runtime.verification.injection import Injection, moved
from gpu_runtime.verification.trials.adversarial_delays import DelayQueue
from gpu_runtime.verification.trials.arena_layout import compressed, full_layout
from gpu_runtime.verification.trials.stamp_check_program import (
    StampCheckProgram,
    make_stamp_check_program,
)
from gpu_runtime.verification.trials.trial import make_trial
from planners.errors import GaplessError
from planners.model.columns import IntColumn, is_whole
from planners.model.problem import Problem
from planners.text.plain_text import shown

DEFAULT_TRIALS = 20


@dataclass(frozen=True)
class VerificationRequest:
    """The trials of a verification."""

    # Runs of the whole program, at least 1.
    trials: int = DEFAULT_TRIALS
    # Start of every random choice, at least 0.
    seed: int = 0
    # True if one word of arena stands for all bytes that the same tensors cover.
    is_compressed: bool = False
    # Tensors that are moved onto a partner, with which trials make them collide.
    injections: tuple[Injection, ...] = ()
    # More pairs of tensors that trials make collide on purpose, until each collision was seen.
    # Every second trial does so, and every trial but the first while at least as many pairs are
    # left as trials.
    overlaps: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("trials", 1), ("seed", 0)):
            value = getattr(self, name)
            if not is_whole(value, least):
                raise GaplessError(f"{name}: at least {least} is needed, found {shown(value)}")


@dataclass(frozen=True)
class Verification:
    """The findings of a verification."""

    problem: Problem
    figures: DeviceFigures
    peak: int
    # Nodes, streams, and waits of a node for a node of another stream.
    nodes: int
    streams: int
    events: int
    # Trials that ended, and those of them with adversarial delays.
    trials: int
    directed_trials: int
    # Device time of the first trial, which has no delays; 0 if it did not end.
    undisturbed_seconds: float
    # Wall time, the opening of the device included.
    seconds: float
    # Empty for a right plan.
    corruptions: list[Corruption]
    # Wrong words that the device had no room to report.
    lost: int
    # True if Ctrl-C ended the verification early.
    interrupted: bool = False
    injections: tuple[Injection, ...] = ()

    @property
    def passed(self) -> bool:
        """Return True if every tensor held its pattern in every trial."""
        return not self.corruptions and not self.lost

    @property
    def bytes_per_second(self) -> float:
        """Bytes stamped and checked per second of the undisturbed trial."""
        touched = self.figures.stamped_bytes + self.figures.checked_bytes
        return touched / self.undisturbed_seconds if self.undisturbed_seconds else 0.0

    def caught(self, injection: Injection) -> list[Corruption]:
        """Return the corruptions of unsafe pairs that involve an injected tensor."""
        return [
            corruption
            for corruption in self.corruptions
            if injection.tensor in (corruption.victim, corruption.writer) and corruption.unsafe
        ]

    def false_alarms(self) -> list[Corruption]:
        """Return the corruptions that neither an unsafe pair nor an injection explains.

        Their pair is safe, or has no writer, or neither of its tensors was moved though others
        were.
        """
        moved = {injection.tensor for injection in self.injections}
        return [
            corruption
            for corruption in self.corruptions
            if not corruption.unsafe
            or (moved and not {corruption.victim, corruption.writer} & moved)
        ]


def verify(
    problem: Problem, offsets: IntColumn, open_device: OpenDevice, request: VerificationRequest
) -> Verification:
    """Run all trials at the given offsets, which may be wrong, and after the injections."""
    begun = time.perf_counter()
    program = make_stamp_check_program(problem)
    layout = full_layout(problem, moved(offsets, request.injections))
    peak = layout.arena_bytes
    if request.is_compressed:
        layout = compressed(layout)
    ledger = CorruptionLedger(layout, lambda a, b: bool(problem.core.unsafe(a, b)))
    device = open_device(program, layout)
    try:
        runs = _run_trials(program, device, request, ledger)
        figures = device.figures
    finally:
        device.close()
    return Verification(
        problem=problem,
        figures=figures,
        peak=peak,
        nodes=program.node_count,
        streams=program.stream_count,
        events=sum(map(len, program.awaits)),
        trials=len(runs.seconds),
        directed_trials=runs.directed,
        undisturbed_seconds=runs.seconds[0] if runs.seconds else 0.0,
        seconds=time.perf_counter() - begun,
        corruptions=ledger.corruptions(),
        lost=ledger.lost,
        interrupted=runs.interrupted,
        injections=request.injections,
    )


@dataclass
class _Runs:
    seconds: list[float] = field(default_factory=list)
    directed: int = 0
    interrupted: bool = False


def _run_trials(
    program: StampCheckProgram,
    device: Device,
    request: VerificationRequest,
    ledger: CorruptionLedger,
) -> _Runs:
    """Run all trials, until the last one or Ctrl-C."""
    runs = _Runs()
    injected = tuple((injection.tensor, injection.partner) for injection in request.injections)
    queue = DelayQueue(program, injected + request.overlaps)
    try:
        for number in range(request.trials):
            left = request.trials - number
            # Every other trial stays random, and may find a pair that is not in the queue.
            is_turn = number > 0 and (number % 2 == 1 or len(queue) >= left)
            delays = queue.next(ledger.has_seen) if is_turn else None
            trial = make_trial(program, number, request.seed, delays)
            outcome = device.run(trial)
            ledger.add(trial, outcome)
            if outcome.interrupted:
                runs.interrupted = True
                break
            runs.seconds.append(outcome.seconds)
            runs.directed += trial.is_directed
    except KeyboardInterrupt:
        runs.interrupted = True
    return runs
