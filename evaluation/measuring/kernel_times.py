"""Times each kernel of a forward pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_runtime.repeating.kernel_calls import operator_of

_Mode: Any = TorchDispatchMode

# A quarter of a second or so, in which the host can launch a forward pass. A guess.
HEAD_START_CYCLES = 500_000_000


class _KernelTimer(_Mode):
    def __init__(self, mark: Callable[[], Any]) -> None:
        super().__init__()
        self.marks: list[tuple[Any, Any]] = []
        self._mark = mark

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator between two marks."""
        if not operator_of(func).is_kernel:
            return func(*args, **(kwargs or {}))
        before = self._mark()
        result = func(*args, **(kwargs or {}))
        self.marks.append((before, self._mark()))
        return result


def kernel_seconds(forward: Callable[[], object], device: str) -> list[float]:
    """Return the seconds of each kernel of a forward pass, in the order in which they run.

    On a GPU they are taken between events on the stream. The host is kept ahead of the device, so
    that the device does not wait between two events.
    """
    if device != "cuda":
        with _KernelTimer(time.perf_counter) as timer:
            forward()
        return [after - before for before, after in timer.marks]

    cuda: Any = torch.cuda

    def mark() -> Any:
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    with _KernelTimer(mark) as timer:
        cuda.synchronize()
        cuda._sleep(HEAD_START_CYCLES)
        forward()
        cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in timer.marks]
