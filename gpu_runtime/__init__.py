"""Plans on real memory: verified word by word, and serving the steps of a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_siblings import gives_way

if TYPE_CHECKING:
    from gpu_runtime.allocator.memory_report import MemoryReport
    from gpu_runtime.allocator.planned_memory import PlannedMemory
    from gpu_runtime.explaining.running_program import explain_memory
    from gpu_runtime.online.online_memory import OnlineMemory, OnlineReport
    from planners.version import __version__ as __version__
elif not gives_way(__name__):
    from planners.late_exports import late_exports
    from planners.version import __version__ as __version__

    __getattr__ = late_exports(
        __name__,
        {
            "MemoryReport": "allocator.memory_report", "OnlineMemory": "online.online_memory",
            "OnlineReport": "online.online_memory", "PlannedMemory": "allocator.planned_memory",
            "explain_memory": "explaining.running_program",
        },
    )  # fmt: skip


__all__ = ["MemoryReport", "OnlineMemory", "OnlineReport", "PlannedMemory", "explain_memory"]
