"""The kernels that find writes to free memory, compiled for the device."""

from __future__ import annotations

from pathlib import Path

from gpu_runtime._core import CudaMemory
from gpu_runtime.verification.devices.cuda.compiler import compile_for

KERNELS = Path(__file__).with_name("overwrite_kernels.cu")


def load_checks(memory: CudaMemory) -> None:
    """Load the kernels into a device, before an allocator is made on it.

    Raises
    ------
    MissingDependencyError
        NVRTC is not installed.
    DeviceError
        The kernels do not compile for the device.
    OSError
        The driver refuses to load them.
    """
    memory.load_checks(compile_for(KERNELS, memory.capability))
