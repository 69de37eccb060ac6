"""Every test of a device runs on the simulated one, and where there is CUDA on a real one too."""

from __future__ import annotations

import pytest

from gpu_runtime.open_device import DeviceKind, open_device
from gpu_runtime.verification import OpenDevice


@pytest.fixture(
    params=[
        pytest.param(DeviceKind.CPU, id="cpu"),
        pytest.param(DeviceKind.CUDA, id="cuda", marks=pytest.mark.gpu),
    ]
)
def device(request: pytest.FixtureRequest) -> OpenDevice:
    """Return what opens a device."""
    return open_device(request.param)
