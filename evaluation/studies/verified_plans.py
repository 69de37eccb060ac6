"""Planners that verify right and wrong plans on real memory, and measure the kernel of that."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpu_runtime.verification.devices.device_kinds import DeviceKind, open_device
from gpu_runtime.verification.injection import inject, moved, unsafe_overlaps
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.trial import make_trial
from gpu_runtime.verification.verification import VerificationRequest, verify
from planners import place_in_objects
from planners.greedy.naive import naive
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.registry import register
from planners.waits.waiting_streams import without_streams

MIB = 1 << 20
MOVED = 20


@register(
    "verified-plan",
    summary="Verify a right or a wrong plan on real memory",
    source="docs/verification.md",
)
def verified_plan(
    problem: Problem,
    budget: Budget,
    plan: Literal["right", "moved", "ignored", "attacked"] = "right",
    device: Literal["simulated", "cuda"] = "cuda",
    trials: int = 20,
) -> Findings:
    """Verify a plan that is right, has moved tensors, or ignores streams; return the right one."""
    right = place_in_objects(problem, "size", "first")
    wrong = place_in_objects(without_streams(problem), "size", "first")
    injections = inject(problem, right, MOVED if plan == "moved" else 0, budget.seed)
    offsets = (right if plan in ("right", "moved") else wrong).offsets
    unsafe = unsafe_overlaps(problem, moved(offsets, injections))
    kind = DeviceKind(device)
    request = VerificationRequest(
        trials,
        budget.seed,
        is_compressed=kind.is_host,
        injections=tuple(injections),
        overlaps=tuple(unsafe) if plan == "attacked" else (),
    )
    found = verify(problem, offsets, open_device(kind), request)
    seen = {frozenset((its.victim, its.writer)) for its in found.corruptions if its.unsafe}
    return Findings(
        right,
        statistics={
            "device": found.figures.name,
            "nodes": found.nodes,
            "streams": found.streams,
            "events": found.events,
            "arena": found.figures.arena_bytes,
            "planned": found.peak,
            "reserved": found.figures.reserved_bytes,
            "trials": found.trials,
            "directed": found.directed_trials,
            "seconds": found.seconds,
            "undisturbed_seconds": found.undisturbed_seconds,
            "rate": found.bytes_per_second,
            "copy_rate": found.figures.copy_bytes_per_second,
            "unsafe_pairs": len(unsafe),
            "seen": len(seen),
            "injected": len(injections),
            "caught": sum(bool(found.caught(its)) for its in injections),
            "false_alarms": len(found.false_alarms()),
        },
    )


@register(
    "verifying-kernel",
    summary="Stamp, check and copy tensors of one size on a GPU; no reuse",
    source="docs/verification.md",
)
def verifying_kernel(
    problem: Problem, budget: Budget, size_mib: int = 256, total_mib: int = 4096
) -> Findings:
    """Measure the kernel alone over a run of tensors of one size; the plan is the naive one."""
    size, count = size_mib * MIB, total_mib // size_mib
    layout = Layout(np.arange(count) * size, np.full(count, size), count * size)
    singles = tuple((tensor,) for tensor in range(count))
    nothing = ((),) * count
    stamping = StampCheckProgram((0,) * count, singles, nothing, nothing)
    both = StampCheckProgram((0,) * 2 * count, singles + nothing, nothing + singles, nothing * 2)
    stamp_seconds = _undisturbed_seconds(stamping, layout)
    check_seconds = _undisturbed_seconds(both, layout) - stamp_seconds
    return Findings(
        naive(problem, budget),
        statistics={
            "stamp_rate": layout.arena_bytes / stamp_seconds,
            "check_rate": layout.arena_bytes / check_seconds,
            "same_copy_rate": _copy_rate(size, count),
        },
    )


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
