"""CUDA devices that open on the host: the whole way to the kernel, without a GPU."""

from __future__ import annotations

import ctypes

import pytest

from gpu_runtime.verification.devices.cuda import context, cuda_device
from gpu_runtime.verification.devices.cuda.context import Context
from gpu_runtime.verification.devices.cuda.driver import Driver
from tests.gpu_runtime.verification.devices.cuda.host_kernel import host_library, host_library_path

HOST_MEMORY = 16 << 20


def put_cuda_on_host(monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """Open CUDA devices on the host's driver while a test runs.

    Returns
    -------
    ctypes.CDLL
        The driver's library, with what ``host_driver.cpp`` has for tests.
    """
    # The host's kernel is compiled already.
    monkeypatch.setattr(context, "compile_for", lambda _source, _capability: b"")
    opened = Context(Driver(str(host_library_path())))
    for module in (context, cuda_device):
        monkeypatch.setattr(module, "open_context", lambda: opened)
    return host_library()
