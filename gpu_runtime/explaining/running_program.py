"""The memory of the program that runs, explained as a snapshot of it is."""

from __future__ import annotations

from typing import Any

from gpu_runtime._core import PlannedAllocator
from gpu_runtime.explaining.explained_moment import Moment, moment_of
from gpu_runtime.explaining.explanation import Explanation
from gpu_runtime.explaining.explanation_report import screen_of
from gpu_runtime.explaining.other_allocators import Change, Replays, replay_changes
from gpu_runtime.fitting.rank_fit import AllocatorFit
from instances.formats.pytorch_snapshot import explained_snapshot
from planners.errors import DeviceError, MissingDependencyError


class RunningExplanation(Explanation):
    """An explanation of the program that runs; ``print`` shows it as ``gapless explain`` does."""

    def __str__(self) -> str:
        return screen_of(self)


def explain_memory(device: int | None = None) -> RunningExplanation:
    """Explain the memory that PyTorch has on a GPU now, or when its last request failed.

    It is the moment of the failure if the program has requested nothing since, as in an ``except``
    block. Then, and for what would have been, PyTorch has to record the history of its memory:
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
    """Explain planned memory, with what PyTorch's allocators would hold for the same requests.

    Parameters
    ----------
    device
        Number of the CUDA device; None if another program than PyTorch calls the allocator.
    """
    segments, free, total = allocator.segments(), None, None
    snapshot: dict[str, Any] = {"segments": segments, "device_traces": [[]]}
    if device is not None:
        snapshot, device, free, total = _pytorch(device)
        planned = {one["address"] for one in segments if one["is_planned"]}
        for one in snapshot["segments"]:
            one["is_planned"] = one["device"] == device and one["address"] in planned
    moment = moment_now(snapshot, device or 0, free, total)
    figures = allocator.figures()

    def change(name: str, peak: int) -> Change:
        fits = None if moment.room is None else peak <= moment.room
        return Change(name, AllocatorFit(name, peak, fits))

    shadow = Replays(
        figures.requested_peak,
        change("planned memory, as it is", figures.reserved_peak),
        (
            change("PyTorch's allocator", figures.default_peak),
            change("PyTorch's allocator, expandable", figures.expandable_peak),
        ),
        agrees=True,
    )
    return RunningExplanation("this program", moment, shadow)


def _pytorch(device: int | None) -> tuple[dict[str, Any], int, int, int]:
    """Return a snapshot, the number of a device, and the bytes that it has free and in all."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("PyTorch is not installed", "torch") from None
    if not torch.cuda.is_initialized():
        raise DeviceError("a program that uses CUDA is needed, found one that has not yet")
    number = torch.cuda.current_device() if device is None else device
    return torch.cuda.memory._snapshot(), number, *torch.cuda.mem_get_info(number)


def moment_now(snapshot: dict[str, Any], device: int, free: int | None, total: int | None) -> Moment:
    """Return the moment of the last failure if nothing was requested since, or else now."""
    told = explained_snapshot(snapshot, device)
    failed = told.failed
    has_failed = bool(failed) and not (told.trace.alloc >= failed[-1].event).any()
    return moment_of(told, len(failed) * has_failed, "now", total, free)
