"""Benchmark of verification: its time, its bandwidth, and the wrong plans that it catches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.benchmarks.worded_page import WordedPage, table_of
from evaluation.report.figure_texts import milliseconds, seconds
from gpu_runtime.verification.devices.device_kinds import DeviceKind, open_device
from gpu_runtime.verification.injection import inject, moved, unsafe_overlaps, without_streams
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.trial import make_trial
from gpu_runtime.verification.verification import Verification, VerificationRequest, verify
from planners import Problem, place_in_objects
from planners.command_line.progress_line import show_progress
from planners.model.columns import IntColumn
from planners.text.byte_units import three_digits

MIB = 1 << 20
SIZES_MIB = (16, 24, 32, 64, 256, 1024)
RATE_BYTES = 4 << 30
INJECTED = 20


VERIFICATIONS = (
    "plan", "trials", "directed", "seconds", "undisturbed ms", "rate GB/s", "of a copy",
    "unsafe pairs", "seen", "injected", "caught", "false alarms",
)  # fmt: skip
RATES = (
    "tensor", "stamp GB/s", "check GB/s", "copy GB/s", "stamp of same copy", "check of same copy",
    "stamp of large copy", "check of large copy",
)  # fmt: skip


def verification_page(
    problem: Problem, command: str, kind: DeviceKind, trials: int, seed: int
) -> WordedPage:
    """Verify right and wrong plans of an instance, and measure the kernel by itself."""
    runs = _verifications(problem, kind, trials, seed)
    right = runs[0].verification
    copy_rate = right.figures.copy_bytes_per_second
    sizes = SIZES_MIB if kind is DeviceKind.CUDA else ()
    figures = {
        "instance": problem.name,
        "device": right.figures.name,
        "tensors": f"{problem.tensor_count:,}",
        "nodes": f"{right.nodes:,}",
        "streams": str(right.streams),
        "events": f"{right.events:,}",
        "arena": f"{right.figures.arena_bytes:,}",
        "peak": f"{right.peak:,}",
        "reserved": f"{right.figures.reserved_bytes:,}",
        "copy-rate": _gigabytes(copy_rate),
        "verifications": table_of(VERIFICATIONS, [run.row() for run in runs]),
        "kernel-rates": table_of(RATES, [_rate_row(size * MIB, copy_rate) for size in sizes]),
    }
    return WordedPage("verification", command, figures)


@dataclass(frozen=True)
class _Run:
    name: str
    verification: Verification
    unsafe_pairs: int
    injected: int
    caught: int
    false_alarms: int

    def row(self) -> list[str]:
        run = self.verification
        seen = {
            frozenset((found.victim, found.writer)) for found in run.corruptions if found.unsafe
        }
        return [
            self.name,
            str(run.trials),
            str(run.directed_trials),
            seconds(run.seconds),
            milliseconds(run.undisturbed_seconds),
            _gigabytes(run.bytes_per_second),
            f"{run.bytes_per_second / run.figures.copy_bytes_per_second:.1%}",
            f"{self.unsafe_pairs:,}",
            f"{len(seen):,}",
            str(self.injected),
            str(self.caught),
            str(self.false_alarms),
        ]


def _verifications(problem: Problem, kind: DeviceKind, trials: int, seed: int) -> list[_Run]:
    right = place_in_objects(problem, "size", "first")
    wrong = place_in_objects(without_streams(problem), "size", "first")
    injections = inject(problem, right, INJECTED, seed)
    onto = [(injection.tensor, injection.partner) for injection in injections]
    cases: list[tuple[str, IntColumn, Sequence[tuple[int, int]]]] = [
        ("right", right.offsets, ()),
        (f"{INJECTED} moved", moved(right, injections), onto),
        ("streams ignored, random delays", wrong.offsets, ()),
        ("streams ignored, attacks", wrong.offsets, unsafe_overlaps(problem, wrong.offsets)),
    ]
    runs = []
    for name, offsets, overlaps in cases:
        show_progress(name)
        request = VerificationRequest(
            trials, seed, is_compressed=kind.is_host, overlaps=tuple(overlaps)
        )
        found = verify(problem, offsets, open_device(kind), request)
        its = injections if overlaps is onto else []
        runs.append(
            _Run(
                name,
                found,
                len(unsafe_overlaps(problem, offsets)),
                len(its),
                sum(bool(found.caught(injection)) for injection in its),
                len(found.false_alarms(its)),
            )
        )
    return runs


def _rate_row(size: int, large_copy: float) -> list[str]:
    show_progress(f"tensors of {size // MIB} MiB")
    count = RATE_BYTES // size
    layout = Layout(np.arange(count) * size, np.full(count, size), count * size)
    singles = tuple((tensor,) for tensor in range(count))
    nothing = ((),) * count
    stamping = StampCheckProgram((0,) * count, singles, nothing, nothing)
    both = StampCheckProgram((0,) * 2 * count, singles + nothing, nothing + singles, nothing * 2)
    stamp_seconds = _undisturbed_seconds(stamping, layout)
    check_seconds = _undisturbed_seconds(both, layout) - stamp_seconds
    rates = layout.arena_bytes / stamp_seconds, layout.arena_bytes / check_seconds
    same_copy = _copy_rate(size, count)
    return [
        f"{size // MIB} MiB",
        *map(_gigabytes, (*rates, same_copy)),
        *(f"{rate / copy:.1%}" for copy in (same_copy, large_copy) for rate in rates),
    ]


def _undisturbed_seconds(program: StampCheckProgram, layout: Layout) -> float:
    device = open_device(DeviceKind.CUDA)(program, layout)
    try:
        outcomes = [device.run(make_trial(program, 0, seed)) for seed in range(3)]
    finally:
        device.close()
    if any(outcome.foreign or outcome.broken for outcome in outcomes):
        raise AssertionError("tensors beside each other were found corrupted")
    return min(outcome.seconds for outcome in outcomes)


def _copy_rate(size: int, count: int) -> float:
    """Return bytes read and written a second by copies of one size, one after the other."""
    # Imported here because the import needs a driver.
    from gpu_runtime.verification.devices.cuda.context import Buffer, Stream, open_context

    context = open_context()
    pairs = [(Buffer(context, size), Buffer(context, size)) for _ in range(count // 2)]

    def submit() -> None:
        for source, target in pairs:
            stream.copy(source, target)

    with Stream(context) as stream:
        taken = min(stream.seconds_of(submit) for _ in range(5))
    for pair in pairs:
        for buffer in pair:
            buffer.free()
    return 2 * size * len(pairs) / taken


def _gigabytes(rate: float) -> str:
    return three_digits(rate / 1e9)
