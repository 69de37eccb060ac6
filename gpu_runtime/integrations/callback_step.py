"""A step that a loop's callbacks begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_runtime.allocator.planned_memory import PlannedMemory
from planners.errors import DeviceError

if TYPE_CHECKING:
    import torch


class CallbackStep:
    """Brackets the training steps of another library's loop.

    Note: a loop need not report that a step was left in the middle. An error, Ctrl-C in a notebook
    or an epoch that a callback ends early leaves a step open. The next event that reveals this ends
    the step as abandoned, so that the next step can begin.
    """

    def __init__(self, memory: PlannedMemory | None) -> None:
        self._memory = memory
        self._is_open = False

    @property
    def memory(self) -> PlannedMemory:
        if self._memory is None:
            raise DeviceError(
                "the callback has no planned memory yet: it makes one when the loop names a device"
            )
        return self._memory

    def install(self, device: torch.device) -> None:
        """Plan memory on the device that a loop trains on, unless it is planned already."""
        if self._memory is not None and self._memory.installed and device.type != "cuda":
            return  # attached to another allocator than PyTorch's, in a test
        if device.type != "cuda":
            raise DeviceError(f"planned memory needs a CUDA device, found training on {device}")
        number = device.index or 0
        if self._memory is None:
            self._memory = PlannedMemory(device=number)
        elif self._memory.device != number:
            raise DeviceError(
                f"planned memory serves device {self._memory.device}, found training on device "
                f"{number}; give PlannedMemory(device={number}), or let the callback make one"
            )
        if not self._memory.installed:
            self._memory.install()

    def begin(self) -> None:
        self.abandon()
        self.memory.begin_step()
        self._is_open = True

    def end(self) -> None:
        """End the open step, if any; a loop may report the end of a step that it skipped."""
        self._end(completed=True)

    def abandon(self) -> None:
        self._end(completed=False)

    def _end(self, *, completed: bool) -> None:
        if self._is_open:
            self._is_open = False
            self.memory.end_step(completed=completed)
