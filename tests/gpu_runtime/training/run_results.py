"""A model, and results as a GPU would give them, for what is tested without one."""

from __future__ import annotations

from msgspec.structs import replace

from gpu_runtime.allocator.memory_report import KindReport, MemoryReport, MismatchRecord
from gpu_runtime.training.run_result import Answer, DeviceCounts, PeakFigures, RunResult
from gpu_runtime.training.training_run import Allocator, Purpose, RegisteredModel, TrainingRun
from instances.extract.record.trace_settings import TraceSettings

GIB = 1 << 30

MODEL = RegisteredModel(
    "bert-base", {"batch": 2, "checkpointing": True}, TraceSettings(steps=2, microbatches=2)
)

PLAN = MemoryReport(
    planner="auto",
    status="optimal",
    reason="",
    plans=1,
    kinds=(KindReport("step", 34, 2_000, 3 * GIB, 30),),
    requested_bytes=3 * GIB,
    allocated_bytes=4 * GIB,
    reserved_bytes=4 * GIB + (1 << 20),
    reserved_now=4 * GIB,
    default_bytes=6 * GIB,
    default_now=6 * GIB,
    expandable_bytes=5 * GIB,
    expandable_now=5 * GIB,
    requests_above_pytorch=0,
    arena_bytes=3 * GIB,
    lower_bound=3 * GIB,
    escaping_bytes=GIB,
    steps=30,
    planned_steps=30,
    planned_requests=60_000,
    escaping_requests=0,
    unexpected_requests=0,
    mismatch_counts={},
    mismatches=(),
)

MISMATCHES = tuple(
    MismatchRecord("size", 3, number, 2 * GIB, GIB, 0, "train.py:7 in step") for number in range(7)
)

CHECK = RunResult(
    losses=(("0x1.0p+3", "0x1.1p+3"), ("0x1.2p+3", "0x1.3p+3")),
    gradients=({"a.weight": "11" * 32, "b.weight": "22" * 32},) * 2,
    parameters={"a.weight": "33" * 32, "b.weight": "44" * 32},
    buffers={"norm.mean": "55" * 32},
)

TIME = RunResult(
    step_seconds=((0.010, 0.013, 0.011),),
    peaks=PeakFigures(3 * GIB, 4 * GIB, 5 * GIB),
    whole_run_reserved=6 * GIB,
    device_bytes=7 * GIB,
    counts=DeviceCounts(8, 1),
    environment={"torch": "2.11.0", "device": "NVIDIA H200"},
)


def planned_check() -> RunResult:
    return replace(CHECK, plan=PLAN)


def planned_time() -> RunResult:
    peaks = PeakFigures(PLAN.requested_bytes, PLAN.allocated_bytes, PLAN.reserved_bytes)
    steps = ((0.010, 0.012, 0.0111),)
    return replace(TIME, step_seconds=steps, peaks=peaks, plan=PLAN)


def succeed(run: TrainingRun) -> Answer:
    """Answer as a run in which all is well."""
    if run.allocator is Allocator.PLANNED:
        return planned_check() if run.purpose is Purpose.CHECK else planned_time()
    return CHECK if run.purpose is Purpose.CHECK else TIME
