"""The memory that NVIDIA's driver counts for this process, as ``nvidia-smi`` shows it."""

from __future__ import annotations

import os


def driver_bytes(ordinal: int) -> int | None:
    """Return the bytes on a GPU; None where the driver does not tell, or its library is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(ordinal)
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except Exception:  # a library of another maker's, which has errors of its own
        return None
    mine = [its.usedGpuMemory for its in running if its.pid == os.getpid()]
    return mine[0] if mine else None
