"""The memory of a process under measurement, whoever serves it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch

from gpu_runtime.allocator.book_planner import Planning
from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.allocator.planned_memory import PlannedMemory
from gpu_runtime.online.online_memory import OnlineMemory
from gpu_runtime.training.run_specification import ONLINE, Allocator
from gpu_runtime.training.worker_result import PeakFigures
from planners.errors import DeviceError


class AllocatorProbe(Protocol):
    """What a run needs to know of its allocator."""

    def step(self) -> AbstractContextManager[object]:
        """Return what a training step runs in."""
        ...

    def wait_for_planning(self) -> None:
        """Return when nothing is computed beside the run."""
        ...

    def reset_peaks(self) -> None:
        """Let peaks and counts start again from now."""
        ...

    def peaks(self) -> PeakFigures | None:
        """Return the peaks since they were reset; none where nobody counts."""
        ...

    def plan(self) -> MemoryReport | None:
        """Return how a plan was kept to since the peaks were reset; none without a plan."""
        ...


class HostProbe:
    """The processor's memory, of which nobody counts anything."""

    def step(self) -> AbstractContextManager[object]:
        """Return what a training step runs in."""
        return nullcontext()

    def wait_for_planning(self) -> None:
        """Do nothing."""

    def reset_peaks(self) -> None:
        """Do nothing."""

    def peaks(self) -> PeakFigures | None:
        """Return none."""
        return None

    def plan(self) -> MemoryReport | None:
        """Return none."""
        return None


class NativeProbe:
    """PyTorch's caching allocator; its mode is chosen by the environment."""

    def step(self) -> AbstractContextManager[object]:
        """Return what a training step runs in."""
        return nullcontext()

    def wait_for_planning(self) -> None:
        """Do nothing: nobody plans."""

    def reset_peaks(self) -> None:
        """Let PyTorch's peaks start again from now."""
        torch.cuda.reset_peak_memory_stats()

    def peaks(self) -> PeakFigures | None:
        """Return PyTorch's peaks."""
        figures: dict[str, int] = torch.cuda.memory_stats()
        requested, allocated, reserved = (
            figures[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")
        )
        return PeakFigures(requested, allocated, reserved)

    def plan(self) -> MemoryReport | None:
        """Return none."""
        return None


class PlannedProbe(NativeProbe):
    """Our allocator, in force from its construction on; PyTorch's peaks are those of both."""

    def __init__(
        self, planner: str, time_limit: float, ordinal: int, planning: Planning = "beside"
    ) -> None:
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


class OnlineProbe(NativeProbe):
    """An online allocator, in force from its construction on; PyTorch's peaks are those of both."""

    def __init__(self, allocator: str, ordinal: int) -> None:
        OnlineMemory(allocator, device=ordinal).install()


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
        return HostProbe()
    if allocator is Allocator.PLANNED:
        return PlannedProbe(planner, time_limit, ordinal, planning)
    if allocator in ONLINE:
        return OnlineProbe(allocator, ordinal)
    return NativeProbe()
