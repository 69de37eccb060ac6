"""Times PyTorch's requests and frees in the allocator in force, whichever it is."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from gpu_runtime.allocator.pytorch.compiled_decorator import load_decorator


@dataclass(frozen=True)
class RequestTime:
    """Time in an allocator, device calls included, and the requests and frees that took it."""

    seconds: float
    events: int

    def __sub__(self, before: RequestTime) -> RequestTime:
        """Return what came after an earlier reading."""
        return RequestTime(self.seconds - before.seconds, self.events - before.events)


class RequestClock:
    """A clock before the allocator in force, for the rest of the process.

    PyTorch's allocator and ours are read at the same place, so that their times can be compared.
    Install ours first.

    Raises
    ------
    MissingDependencyError, DeviceError
        The clock cannot be compiled for this PyTorch.
    """

    def __init__(self, pytorch: Any) -> None:
        self._time_requests = load_decorator(pytorch).gapless_time_requests
        self._time_requests.argtypes = (ctypes.c_bool, ctypes.POINTER(ctypes.c_int64))
        self._time_requests.restype = None
        self.stop()

    def start(self) -> RequestTime:
        """Start the clock, and return what it has read so far."""
        return self._turn(is_on=True)

    def stop(self) -> RequestTime:
        """Stop the clock, and return what it has read so far."""
        return self._turn(is_on=False)

    def _turn(self, *, is_on: bool) -> RequestTime:
        so_far = (ctypes.c_int64 * 2)()
        self._time_requests(is_on, so_far)
        return RequestTime(so_far[0] / 1e9, so_far[1])
