"""The memory of a process under measurement, under each allocator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter

import torch

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.allocator.planned_memory import MOVES, PlannedMemory
from gpu_runtime.allocator.pytorch.request_clock import RequestClock, RequestTime
from gpu_runtime.allocator.step_planner import Planning
from gpu_runtime.online.online_memory import OnlineMemory
from gpu_runtime.training.run_result import DeviceCounts, PeakFigures
from gpu_runtime.training.training_run import ONLINE, Allocator
from planners.errors import DeviceError
from planners.model.online_result import WAITING_CALLS

# PyTorch's statistics of calls that take and give back memory, and of waits for all streams.
NATIVE_CALLS = ("num_device_alloc", "num_device_free")
NATIVE_WAITS = ("num_sync_all_streams",)
# The share of time for moves of each kind of planned memory.
PLANNED_MOVES = {
    Allocator.PLANNED: MOVES,
    Allocator.PLANNED_NO_MOVES: 0.0,
    Allocator.PLANNED_ALL_MOVES: None,
}


class AllocatorProbe:
    """The memory of a run, as the run sees it; on a processor no allocator counts anything."""

    def step(self) -> AbstractContextManager[object]:
        """Return the context of a training step."""
        return nullcontext()

    def timed_step(self) -> AbstractContextManager[object]:
        """Return the context of a training step in which the allocator's time is read."""
        return self.step()

    def exclusive_graphs(self) -> AbstractContextManager[object]:
        """Return the context of captures that may share memory."""
        return nullcontext()

    def between_replays(self) -> AbstractContextManager[object]:
        """Return the context of work that may use the memory of graphs."""
        return nullcontext()

    @property
    def step_times(self) -> tuple[RequestTime, ...]:
        """The allocator's time in each timed step; empty if there is no clock."""
        return ()

    def wait_for_planning(self) -> None:
        """Return when no plan is in the making."""

    def reset_peaks(self) -> None:
        """Restart peaks and counts from now."""

    def peaks(self) -> PeakFigures | None:
        """Return the peaks since the reset."""
        return None

    def counts(self) -> DeviceCounts | None:
        """Return the device calls since the reset."""
        return None

    def plan(self) -> MemoryReport | None:
        """Return the report on the plan since the reset; None without planned memory."""
        return None

    def note(self) -> str:
        """Return what an online allocator planned, or why it did not; empty without one."""
        return ""


class NativeProbe(AllocatorProbe):
    """PyTorch's caching allocator; the environment chooses its mode."""

    def __init__(self) -> None:
        self._before = DeviceCounts(0, 0)
        self._clock: RequestClock | None = None
        self._step_times: list[RequestTime] = []

    @contextmanager
    def timed_step(self) -> Iterator[None]:
        if self._clock is None:
            self._clock = RequestClock(torch)
        before = self._clock.start()
        begin = perf_counter()
        with self.step():
            begun = perf_counter()
            yield
            end = perf_counter()
        ended = perf_counter()
        read = self._clock.stop() - before
        # The begin and the end of a step may move memory.
        marks = begun - begin + ended - end
        self._step_times.append(RequestTime(read.seconds + marks, read.events))

    @property
    def step_times(self) -> tuple[RequestTime, ...]:
        return tuple(self._step_times)

    def reset_peaks(self) -> None:
        torch.cuda.reset_peak_memory_stats()
        self._before = self._all_counts() or self._before

    def peaks(self) -> PeakFigures | None:
        figures: dict[str, int] = torch.cuda.memory_stats()
        kinds = ("requested", "allocated", "reserved")
        return PeakFigures(*(figures[f"{kind}_bytes.all.peak"] for kind in kinds))

    def counts(self) -> DeviceCounts | None:
        now, before = self._all_counts(), self._before
        if now is None:
            return None
        return DeviceCounts(now.calls - before.calls, now.host_waits - before.host_waits)

    def _all_counts(self) -> DeviceCounts | None:
        figures: dict[str, int] = torch.cuda.memory_stats()
        return DeviceCounts(_sum(figures, NATIVE_CALLS), _sum(figures, NATIVE_WAITS))


class PlannedProbe(NativeProbe):
    """Planned memory, installed at construction; PyTorch's peaks include its memory."""

    def __init__(
        self, planner: str, time_limit: float, ordinal: int, moves: float | None, planning: Planning
    ) -> None:
        super().__init__()
        self._memory = PlannedMemory(
            planner, time_limit=time_limit, device=ordinal, moves=moves, _planning=planning
        )
        self._memory.install()

    def step(self) -> AbstractContextManager[object]:
        return self._memory.step()

    def exclusive_graphs(self) -> AbstractContextManager[object]:
        return self._memory.graphs(exclusive=True)

    def between_replays(self) -> AbstractContextManager[object]:
        return self._memory.between_replays()

    def wait_for_planning(self) -> None:
        self._memory.wait_for_planning()

    def plan(self) -> MemoryReport | None:
        return self._memory.report()

    def reset_peaks(self) -> None:
        super().reset_peaks()
        self._memory.reset_peaks()

    def counts(self) -> DeviceCounts | None:
        use = self._memory.report().device
        return None if use is None else DeviceCounts(sum(use.calls.values()), use.host_waits)


class OnlineProbe(NativeProbe):
    """An online allocator, installed at construction; PyTorch's peaks include its memory."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__()
        self._memory = OnlineMemory(name, device=ordinal)
        self._memory.install()

    def note(self) -> str:
        return self._memory.report().note

    def _all_counts(self) -> DeviceCounts | None:
        calls = self._memory.report().device_calls
        return DeviceCounts(sum(calls.values()), _sum(calls, WAITING_CALLS))


def require_device(device: str) -> None:
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
    """Install an allocator on the CUDA device of a number, before anything allocates.

    A ``"cpu"`` has no allocator to choose; the environment chooses the mode of PyTorch's own. With
    planning ``"between"`` a plan is in force from the same step on in every run.
    """
    if device == "cpu":
        return AllocatorProbe()
    if allocator in PLANNED_MOVES:
        return PlannedProbe(planner, time_limit, ordinal, PLANNED_MOVES[allocator], planning)
    if allocator in ONLINE:
        return OnlineProbe(allocator, ordinal)
    return NativeProbe()


def _sum(figures: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(figures.get(name, 0) for name in names)
