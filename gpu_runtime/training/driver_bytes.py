"""The memory that NVIDIA's driver counts for this process, as ``nvidia-smi`` shows it."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def driver_bytes(uuid: str) -> int | None:
    """Return the bytes on a GPU; None where the driver does not tell, or its library is missing."""
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        device = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        running = nvml.nvmlDeviceGetComputeRunningProcesses(device)
    except nvml.NVMLError:
        return None
    return next((its.usedGpuMemory for its in running if its.pid == os.getpid()), None)
