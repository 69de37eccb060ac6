"""CUDA devices on the host: a process whose driver runs kernels on the processor, without a GPU."""

from __future__ import annotations

from tests.gpu_runtime.core.driver_stand_in import DRIVER, output_of
from tests.gpu_runtime.verification.devices.cuda.host_kernel import host_library_path

# The kernel of the host is compiled already.
PREPARE = """
    from gpu_runtime.verification.devices.cuda import context
    context.compile_for = lambda _source, _capability: bytes(1)
"""


def on_host(code: str) -> str:
    """Run code in a process of its own, over cuda-bindings as on a GPU; return what it printed."""
    return output_of(code, host_library_path(DRIVER).parent, PREPARE)
