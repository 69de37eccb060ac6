"""Devices by name."""

from __future__ import annotations

import enum

from gpu_runtime.verification.devices.device import OpenDevice
from gpu_runtime.verification.devices.simulated_device import SimulatedDevice
from gpu_runtime.verification.devices.threaded_device import ThreadedDevice


class DeviceKind(enum.Enum):
    """Kinds of device for a verification: simulated streams, threads, or the first GPU."""

    SIMULATED = "simulated"
    CPU = "cpu"
    CUDA = "cuda"

    @property
    def is_host(self) -> bool:
        """Return True if the arena is memory of this machine, which may be compressed."""
        return self is not DeviceKind.CUDA


def open_device(kind: DeviceKind) -> OpenDevice:
    if kind is DeviceKind.SIMULATED:
        return SimulatedDevice
    if kind is DeviceKind.CPU:
        return ThreadedDevice
    # Imported here because it needs cuda-bindings, an optional package.
    from gpu_runtime.verification.devices.cuda.cuda_device import CudaDevice

    return CudaDevice
