"""Measures the peak of the bytes that a run takes from PyTorch's CPU allocator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

MEMORY_EVENT = "[memory]"
# Kernels of the CPU that take memory besides their results while they run.
WITH_WORKSPACE = (
    "aten::convolution_backward", "aten::mkldnn_convolution", "aten::native_batch_norm_backward",
)  # fmt: skip


def measured_peak(run: Callable[[], object]) -> int:
    """Return the most bytes that a run took at once, without what was there before.

    Workspaces of kernels and copies of the random state do not count, as they are on the CPU only.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
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
