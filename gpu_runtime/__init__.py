"""Plans on real memory: verified word by word, and serving the steps of a training run."""

from __future__ import annotations

# First of all: a command line of ours answers Ctrl-C from here on.
from planners.command_line import starting as starting  # isort: split

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.allocator.online_memory import OnlineMemory
from gpu_runtime.allocator.online_report import OnlineReport
from gpu_runtime.allocator.planned_memory import PlannedMemory
from planners.command_line.version import __version__ as __version__

__all__ = ["MemoryReport", "OnlineMemory", "OnlineReport", "PlannedMemory"]
