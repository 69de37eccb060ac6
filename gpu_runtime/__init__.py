"""Plans on real memory: verified word by word, and serving the steps of a training run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

# First of all: a folder of the user's may have the name of a package of ours.
run_path(str(Path(__file__).parents[1] / "planners" / "siblings.py"))["require_ours"]("planners")

from planners.command_line.version import __version__ as __version__

if TYPE_CHECKING:
    from gpu_runtime.allocator.memory_report import MemoryReport
    from gpu_runtime.allocator.planned_memory import PlannedMemory
    from gpu_runtime.online.online_memory import OnlineMemory, OnlineReport
else:
    _HOMES = {
        "MemoryReport": "allocator.memory_report", "OnlineMemory": "online.online_memory",
        "OnlineReport": "online.online_memory", "PlannedMemory": "allocator.planned_memory",
    }  # fmt: skip

    def __getattr__(name: str) -> Any:
        """Import what the package exports, which takes long, when it is asked for."""
        if name not in _HOMES:
            raise AttributeError(f"module 'gpu_runtime' has no attribute {name!r}")
        return getattr(import_module(f"gpu_runtime.{_HOMES[name]}"), name)


__all__ = ["MemoryReport", "OnlineMemory", "OnlineReport", "PlannedMemory"]
