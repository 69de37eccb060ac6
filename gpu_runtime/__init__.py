"""Plans on real memory: verified word by word, and serving the steps of a training run."""

from __future__ import annotations

from gpu_runtime.memory_report import MemoryReport
from gpu_runtime.planned_memory import PlannedMemory

__all__ = ["MemoryReport", "PlannedMemory"]
