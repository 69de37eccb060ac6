"""The memory of a process under measurement, whoever serves it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from gpu_runtime.allocator.book_planner import Planning
from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.allocator.planned_memory import PlannedMemory
from gpu_runtime.online.online_memory import OnlineMemory
from gpu_runtime.training.run_result import DeviceCounts, PeakFigures
from gpu_runtime.training.training_run import ONLINE, Allocator
from planners.errors import DeviceError

# Of PyTorch's statistics: calls that take and give back memory, and waits for all streams.
NATIVE_CALLS = ("num_device_alloc", "num_device_free")
NATIVE_WAITS = ("num_sync_all_streams",)
# Kinds of call to a device in which the host waits for it.
WAITS = ("synchronize", "await_event")


class AllocatorProbe:
    """What a run needs to know of its allocator; this is the processor's, where nobody counts."""

    def step(self) -> AbstractContextManager[object]:
        """Return what a training step runs in."""
        return nullcontext()

    def wait_for_planning(self) -> None:
        """Return when nothing is computed beside the run."""

    def reset_peaks(self) -> None:
        """Let peaks and counts start again from now."""

    def peaks(self) -> PeakFigures | None:
        """Return the peaks since they were reset; none where nobody counts."""
        return None

    def counts(self) -> DeviceCounts | None:
        """Return what was asked of the device since the reset; none where nobody counts."""
        return None

    def plan(self) -> MemoryReport | None:
        """Return how a plan was kept to since the peaks were reset; none without a plan."""
        return None


class NativeProbe(AllocatorProbe):
    """PyTorch's caching allocator; its mode is chosen by the environment."""

    def __init__(self) -> None:
        self._before = DeviceCounts(0, 0)

    def reset_peaks(self) -> None:
        """Let PyTorch's peaks start again from now."""
        torch.cuda.reset_peak_memory_stats()
        self._before = self._all_counts() or self._before

    def peaks(self) -> PeakFigures | None:
        """Return PyTorch's peaks."""
        figures: dict[str, int] = torch.cuda.memory_stats()
        requested, allocated, reserved = (
            figures[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")
        )
        return PeakFigures(requested, allocated, reserved)

    def counts(self) -> DeviceCounts | None:
        """Return the difference to what it was at the reset."""
        now, before = self._all_counts(), self._before
        if now is None:
            return None
        return DeviceCounts(now.calls - before.calls, now.host_waits - before.host_waits)

    def _all_counts(self) -> DeviceCounts | None:
        figures: dict[str, int] = torch.cuda.memory_stats()
        return DeviceCounts(_sum(figures, NATIVE_CALLS), _sum(figures, NATIVE_WAITS))


class PlannedProbe(NativeProbe):
    """Our allocator, in force from its construction on; PyTorch's peaks are those of both."""

    def __init__(
        self, planner: str, time_limit: float, ordinal: int, planning: Planning = "beside"
    ) -> None:
        super().__init__()
        self._memory = PlannedMemory(
            planner, time_limit=time_limit, device=ordinal, _planning=planning
        )
        self._memory.install()

    def step(self) -> AbstractContextManager[object]:
        """Return what a training step runs in."""
        return self._memory.step()

    def wait_for_planning(self) -> None:
        """Wait for the plan that is being made."""
        self._memory.wait_for_planning()

    def reset_peaks(self) -> None:
        """Let all peaks and counts start again from now."""
        super().reset_peaks()
        self._memory.reset_peaks()

    def plan(self) -> MemoryReport | None:
        """Return its report."""
        return self._memory.report()

    def _all_counts(self) -> DeviceCounts | None:
        """Return none: planned memory does not tell its calls to the device."""
        return None


class OnlineProbe(NativeProbe):
    """An online allocator, in force from its construction on; peaks are PyTorch's and its own."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__()
        self._memory = OnlineMemory(name, device=ordinal)
        self._memory.install()

    def _all_counts(self) -> DeviceCounts | None:
        calls = self._memory.report().device_calls
        return DeviceCounts(sum(calls.values()), _sum(calls, WAITS))


def require_device(device: str) -> None:
    """Check that there is the device that a run wants."""
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceError("PyTorch finds no CUDA device; training under a plan needs one")


def open_probe(
    allocator: Allocator,
    device: str,
    planner: str = "auto",
    time_limit: float = 10.0,
    ordinal: int = 0,
    planning: Planning = "beside",
) -> AllocatorProbe:
    """Put an allocator in force, before anything allocates.

    A ``"cpu"`` has none to choose; the mode of PyTorch's own is chosen by the environment. The
    ordinal is the number of the CUDA device. A plan made between steps is in force from the same
    step on in every run, however long the planner takes.
    """
    if device == "cpu":
        return AllocatorProbe()
    if allocator is Allocator.PLANNED:
        return PlannedProbe(planner, time_limit, ordinal, planning)
    if allocator in ONLINE:
        return OnlineProbe(allocator, ordinal)
    return NativeProbe()


def _sum(figures: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(figures.get(name, 0) for name in names)
