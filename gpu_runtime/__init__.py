"""Plans on real memory: verified word by word, and serving the steps of a training run."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

# First of all: a folder of the user's may have the name of a package of ours.
run_path(str(Path(__file__).parents[1] / "planners" / "siblings.py"))["require_ours"]("planners")

from planners.command_line.version import __version__ as __version__
from planners.late_exports import late_exports

if TYPE_CHECKING:
    from gpu_runtime.allocator.memory_report import MemoryReport
    from gpu_runtime.allocator.planned_memory import PlannedMemory
    from gpu_runtime.online.online_memory import OnlineMemory, OnlineReport
else:
    __getattr__ = late_exports(
        __name__,
        {
            "MemoryReport": "allocator.memory_report", "OnlineMemory": "online.online_memory",
            "OnlineReport": "online.online_memory", "PlannedMemory": "allocator.planned_memory",
        },
    )  # fmt: skip


__all__ = ["MemoryReport", "OnlineMemory", "OnlineReport", "PlannedMemory"]
