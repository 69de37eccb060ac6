"""Devices by name."""

from __future__ import annotations

import enum

from gpu_runtime.simulated_device import SimulatedDevice
from gpu_runtime.verification import OpenDevice


class DeviceKind(enum.Enum):
    """What a verification can run on."""

    CPU = "cpu"
    CUDA = "cuda"


def open_device(kind: DeviceKind) -> OpenDevice:
    """Return what opens a device of a kind.

    Parameters
    ----------
    kind
        Of device.

    Returns
    -------
    callable
        Takes a program and a layout.
    """
    if kind is DeviceKind.CPU:
        return SimulatedDevice
    # Imported here because it declares the driver's functions, which nothing else needs.
    from gpu_runtime.cuda.cuda_device import CudaDevice

    return CudaDevice
