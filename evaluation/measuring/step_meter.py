"""Measures steps of PyTorch on a GPU or on the CPU: the peak of their bytes, and their seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

Step = Callable[[], object]

MEMORY_EVENT = "[memory]"
# Kernels of the CPU that take memory besides their results while they run.
WITH_WORKSPACE = (
    "aten::convolution_backward", "aten::mkldnn_convolution", "aten::native_batch_norm_backward",
)  # fmt: skip


class StepMeter:
    """Measures steps on one kind of device, ``"cuda"`` or ``"cpu"``."""

    def __init__(self, device: str) -> None:
        self._is_gpu = device == "cuda"

    def wait(self) -> None:
        """Wait until the device has computed."""
        if self._is_gpu:
            torch.cuda.synchronize()

    def peak_bytes(self, step: Step) -> int:
        """Return the most bytes that a step allocates at once, beyond those from before it."""
        if not self._is_gpu:
            return cpu_peak_bytes(step)
        self.wait()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        self.wait()
        peak: int = torch.cuda.max_memory_allocated() - before
        return peak

    def reserved_bytes(self, step: Step) -> int:
        """Return the most bytes that the allocator reserves while a step runs."""
        if not self._is_gpu:
            return 0
        self.wait()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step()
        self.wait()
        reserved: int = torch.cuda.max_memory_reserved()
        return reserved

    def seconds(self, step: Step, repetitions: int) -> float:
        """Return the median of the seconds of a step."""
        found = []
        for _ in range(repetitions):
            self.wait()
            started = time.perf_counter()
            step()
            self.wait()
            found.append(time.perf_counter() - started)
        return statistics.median(found)


def cpu_peak_bytes(step: Step) -> int:
    """Return the most bytes that a step has taken from PyTorch's CPU allocator at once.

    Workspaces of kernels and copies of the random state do not count, as on a GPU they are
    elsewhere.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    kineto: Any = profiled.profiler
    requests: list[tuple[int, int, int, tuple[Any, ...]]] = []

    def visit(event: Any, within: tuple[Any, ...]) -> None:
        if event.name == MEMORY_EVENT:
            fields = event.extra_fields
            requests.append((event.start_time_ns, fields.alloc_size, fields.ptr, within))
        for child in event.children:
            visit(child, (*within, (event.name, event.start_time_ns)))

    for root in kineto.kineto_results.experimental_event_tree():
        visit(root, ())
    requests.sort(key=lambda request: request[0])
    random_state = torch.get_rng_state().nbytes
    begun: dict[int, int] = {}
    changes = [size for _, size, _, _ in requests]
    for index, (_, size, address, within) in enumerate(requests):
        if size > 0:
            begun[address] = index
        elif address in begun:
            first = begun.pop(address)
            both = set(requests[first][3]) & set(within)
            if -size == random_state or any(name.startswith(WITH_WORKSPACE) for name, _ in both):
                changes[first] = changes[index] = 0
    live = peak = 0
    for change in changes:
        live += change
        peak = max(peak, live)
    return peak
