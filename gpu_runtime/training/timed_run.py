"""A run of which time and memory are kept, and nothing that is computed."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from gpu_runtime.training.allocator_probe import AllocatorProbe
from gpu_runtime.training.prepared_run import prepare
from gpu_runtime.training.run_specification import RunSpecification
from gpu_runtime.training.worker_result import TimeResult

# Drawing a batch of images takes longer than the step of a small network.
DRAWN_MICROBATCHES = 4

DRIVER_VERSION = Path("/proc/driver/nvidia/version")

# Untyped in PyTorch.
_make_event: Callable[..., Any] = torch.cuda.Event


def run_timed(specification: RunSpecification, probe: AllocatorProbe) -> TimeResult:
    """Warm the loop of a run up, then time its steps and watch the peaks of its memory."""
    free_before = _free_bytes(specification.device)
    run = prepare(specification)
    loop = run.loop(run.batches.repeated(DRAWN_MICROBATCHES))
    optimizer = loop.make_optimizer()

    def step() -> None:
        with probe.step():
            loop.run_iteration(optimizer)

    for _ in range(specification.warm_up):
        step()
    _wait(specification.device)
    before = probe.peaks()
    probe.reset_peaks()
    step_seconds = _time_steps(step, specification.timed_steps, specification.device)
    peaks, free_after = probe.peaks(), _free_bytes(specification.device)
    whole_run = None if before is None or peaks is None else max(before.reserved, peaks.reserved)
    taken = None if free_before is None or free_after is None else free_before - free_after
    return TimeResult(
        step_seconds=tuple(step_seconds),
        peaks=peaks,
        whole_run_reserved=whole_run,
        device_bytes=taken,
        plan=probe.plan(),
        environment=run_environment(specification.device),
    )


def _time_steps(step: Callable[[], None], count: int, device: str) -> list[float]:
    """Return seconds from step to step, on a GPU by its own clock: the host runs ahead of it."""
    if device != "cuda":
        instants = [time.perf_counter()]
        for _ in range(count):
            step()
            instants.append(time.perf_counter())
        return [after - before for before, after in pairwise(instants)]
    events = [_make_event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in pairwise(events)]


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _free_bytes(device: str) -> int | None:
    """Return what the driver says is free; the first call makes the context."""
    if device != "cuda":
        return None
    free: int = torch.cuda.mem_get_info()[0]
    return free


def run_environment(device: str) -> dict[str, str]:
    """Return what a run is done with, by name."""
    described = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
    }
    if device == "cuda":
        described |= {"device": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
        if DRIVER_VERSION.exists():
            found = re.search(r"(\d+\.\d+(?:\.\d+)?)", DRIVER_VERSION.read_text())
            described["driver"] = found[1] if found else "unknown"
    return described
