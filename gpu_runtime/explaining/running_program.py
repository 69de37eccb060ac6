"""The memory of the program that runs, explained as a snapshot of it is."""

from __future__ import annotations

from typing import Any

from gpu_runtime._core import PlannedAllocator
from gpu_runtime.explaining.explained_moment import Moment, moment_of
from gpu_runtime.explaining.explanation import Explanation
from gpu_runtime.explaining.explanation_report import screen_of
from gpu_runtime.explaining.other_allocators import Replays, replay_changes
from gpu_runtime.fitting.rank_fit import AllocatorFit
from instances.formats.pytorch_snapshot import explained_snapshot
from planners.errors import DeviceError, MissingDependencyError


class RunningExplanation(Explanation):
    """An explanation of the program that runs; ``print`` shows it as ``gapless explain`` does."""

    def __str__(self) -> str:
        return screen_of(self)


def explain_memory(device: int | None = None) -> RunningExplanation:
    """Explain the memory that PyTorch has on a GPU now, or when its last request failed.

    It is the failure if the program has requested nothing since, as in an ``except`` block. The
    failure, places, and what would have been are known if PyTorch records its history:
    ``torch.cuda.memory._record_memory_history()``.

    Parameters
    ----------
    device
        Number of the CUDA device, by default the current one.

    Returns
    -------
    RunningExplanation
        ``print`` shows it.

    Raises
    ------
    MissingDependencyError
        PyTorch is not installed.
    DeviceError
        The program has not used CUDA.
    """
    moment = moment_now(*_pytorch(device))
    return RunningExplanation("this program", moment, replay_changes(moment))


def explain_planned(allocator: PlannedAllocator, device: int | None) -> RunningExplanation:
    """Explain planned memory, which serves PyTorch on a device, or another program."""
    segments = allocator.segments()
    if device is None:
        moment = moment_now({"segments": segments, "device_traces": [[]]}, 0, None, None)
    else:
        snapshot, *memory = _pytorch(device)
        planned = {one["address"] for one in segments if one["is_planned"]}
        for one in snapshot["segments"]:
            one["is_planned"] = one["device"] == device and one["address"] in planned
        moment = moment_now(snapshot, *memory)
    figures = allocator.figures()
    peaks = {
        "planned memory, as it is": figures.reserved_peak,
        "PyTorch's allocator": figures.default_peak,
        "PyTorch's allocator, expandable": figures.expandable_peak,
    }
    was, *others = (
        AllocatorFit(name, peak, None if moment.room is None else peak <= moment.room)
        for name, peak in peaks.items()
    )
    replays = Replays(figures.requested_peak, was, tuple(others))
    return RunningExplanation("this program", moment, replays)


def _pytorch(device: int | None) -> tuple[dict[str, Any], int, int, int]:
    """Return a snapshot, the number of a device, and the bytes that it has free and in all."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("PyTorch is not installed", "torch") from None
    cuda: Any = torch.cuda
    if not cuda.is_initialized():
        raise DeviceError("a program that uses CUDA is needed, found one that has not yet")
    number = torch.cuda.current_device() if device is None else device
    return torch.cuda.memory._snapshot(), number, *torch.cuda.mem_get_info(number)


def moment_now(
    snapshot: dict[str, Any], device: int, free: int | None, total: int | None
) -> Moment:
    """Return the moment of the last failure if nothing was requested since, or else now."""
    told = explained_snapshot(snapshot, device)
    failed = told.failed
    has_failed = bool(failed) and not (told.trace.alloc >= failed[-1].event).any()
    return moment_of(told, len(failed) * has_failed, "now", total, free)
