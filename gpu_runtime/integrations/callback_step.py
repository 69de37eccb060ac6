"""A step that a loop's callbacks begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_runtime.allocator.planned_memory import PlannedMemory
from planners.errors import DeviceError

if TYPE_CHECKING:
    import torch


class CallbackStep:
    """Brackets the steps of a loop that is not ours.

    Note: a loop that is left in the middle of a step need not say so. An error, Ctrl-C in a
    notebook's cell or an epoch that a callback cuts short leave a step open; whatever event shows
    that it is over ends it as abandoned, so that the next one can begin.
    """

    def __init__(self, memory: PlannedMemory | None) -> None:
        self._memory = memory
        self._is_open = False

    @property
    def memory(self) -> PlannedMemory:
        if self._memory is None:
            raise DeviceError(
                "the callback has no planned memory yet: it makes one when it hears where it trains"
            )
        return self._memory

    def install(self, device: torch.device) -> None:
        """Have memory planned on the device that a loop trains on, if it is not already."""
        if self._memory is not None and self._memory.installed and device.type != "cuda":
            return  # attached to an allocator that somebody else than PyTorch asks
        if device.type != "cuda":
            raise DeviceError(
                f"planned memory is that of a CUDA device, found training on {device}"
            )
        number = device.index or 0
        if self._memory is None:
            self._memory = PlannedMemory(device=number)
        elif self._memory.device != number:
            raise DeviceError(
                f"planned memory is that of device {self._memory.device}, found training on device "
                f"{number}; say PlannedMemory(device={number}), or leave it to the callback"
            )
        if not self._memory.installed:
            self._memory.install()

    def begin(self) -> None:
        self.abandon()
        self.memory.begin_step()
        self._is_open = True

    def end(self) -> None:
        """End the step that is open; a loop may tell of the end of one that it skipped."""
        self._end(completed=True)

    def abandon(self) -> None:
        """End a step that did not come to its own end, if there is one."""
        self._end(completed=False)

    def _end(self, *, completed: bool) -> None:
        if self._is_open:
            self._is_open = False
            self.memory.end_step(completed=completed)
