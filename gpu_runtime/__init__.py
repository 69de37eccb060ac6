"""Plans on real memory: verified word by word, and serving the steps of a training run."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

# First of all: a folder of the user's may have the name of a package of ours.
run_path(str(Path(__file__).parents[1] / "planners" / "siblings.py"))["require_ours"]("planners")

# A command line of ours answers Ctrl-C from here on.
from planners.command_line import starting as starting  # isort: split

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.allocator.planned_memory import PlannedMemory
from gpu_runtime.online.online_memory import OnlineMemory
from gpu_runtime.online.online_report import OnlineReport
from planners.command_line.version import __version__ as __version__

__all__ = ["MemoryReport", "OnlineMemory", "OnlineReport", "PlannedMemory"]
