"""Planned memory that writes down the steps of a loop, and what the loop does, as one line.

(FFO)EE(F!   a step of two batches and the optimizer, two batches evaluated, a step that was
             abandoned after its first batch
"""

from __future__ import annotations

from typing import Any

import torch

from gpu_runtime import PlannedMemory
from gpu_runtime._core import PlannedAllocator, SimulatedMemory


class RecordedMemory(PlannedMemory):
    """Over simulated memory, which nobody asks."""

    def __init__(self) -> None:
        super().__init__("naive")
        self.attach(PlannedAllocator(SimulatedMemory(1 << 16, 1 << 20)))
        self.events = ""

    def note(self, event: str) -> None:
        self.events += event

    def begin_step(self, kind: str | None = None) -> None:
        super().begin_step(kind)
        self.note("(")

    def end_step(self, *, completed: bool = True) -> None:
        super().end_step(completed=completed)
        self.note(")" if completed else "!")


class RecordedOptimizer(torch.optim.SGD):
    """Plain gradient descent that says when it has stepped."""

    def __init__(self, module: torch.nn.Module, memory: RecordedMemory) -> None:
        super().__init__(module.parameters(), lr=0.1)
        self._memory = memory

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        self._memory.note("O")
        return loss
