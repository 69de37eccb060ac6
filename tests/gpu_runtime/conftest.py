"""Every test of a device runs on both kinds of CPU, and where there is CUDA on a real one too."""

from __future__ import annotations

import pytest

from gpu_runtime.verification.devices.device import OpenDevice
from gpu_runtime.verification.devices.device_kinds import DeviceKind, open_device

HOST = [kind for kind in DeviceKind if kind.is_host]


@pytest.fixture(
    params=[
        *(pytest.param(kind, id=kind.value) for kind in HOST),
        pytest.param(DeviceKind.CUDA, id="cuda", marks=pytest.mark.gpu),
    ]
)
def device(request: pytest.FixtureRequest) -> OpenDevice:
    """Return what opens a device."""
    return open_device(request.param)


@pytest.fixture(params=HOST, ids=lambda kind: kind.value)
def host_device(request: pytest.FixtureRequest) -> OpenDevice:
    """Return what opens a device in this machine's memory."""
    return open_device(request.param)
