"""The kernels that look who writes to free memory, compiled for the device at hand."""

from __future__ import annotations

from pathlib import Path

from gpu_runtime._core import CudaMemory
from gpu_runtime.verification.devices.cuda.compiler import compile_for

KERNELS = Path(__file__).with_name("overwrite_kernels.cu")


def load_checks(memory: CudaMemory) -> None:
    """Let a device look who writes to free memory; before its allocator is made.

    Raises
    ------
    MissingDependencyError
        NVRTC is not installed.
    DeviceError
        It does not compile for the device.
    OSError
        The driver refuses.
    """
    memory.load_checks(compile_for(KERNELS, memory.capability))
