"""PyTorch's CUDA allocations: what a plan serves from our allocator, all else from PyTorch's."""

from __future__ import annotations

import atexit
import ctypes
import os
from functools import cache
from typing import Any

from gpu_runtime import _core
from gpu_runtime.allocator.overwrite_kernels import load_checks
from gpu_runtime.allocator.pytorch.compiled_decorator import load_decorator
from planners.errors import DeviceError, MissingDependencyError

_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def serve_pytorch(
    device: int,
    *,
    is_plain: bool = False,
    is_checked: bool = False,
    expandable_segments: bool = False,
) -> _core.PlannedAllocator:
    """Make an allocator that is asked first on a device, until the process ends.

    PyTorch may have used CUDA already: its blocks stay its own.

    Parameters
    ----------
    is_plain
        Whether its memory comes by plain allocations, which other processes can share.
    is_checked
        Whether writes to what is free are looked for.
    expandable_segments
        Whether PyTorch's own allocator is to grow its segments, where the user has not said how it
        is to work.

    Raises
    ------
    MissingDependencyError
        PyTorch, a compiler or CUDA's headers are not installed, or NVRTC where it is needed.
    DeviceError
        There is no driver or device, PyTorch is one that cannot be served, or something is
        installed on this device.
    """
    pytorch = _pytorch_with_cuda()
    try:
        memory = _core.CudaMemory(device)
        if is_checked:
            load_checks(memory)
        allocator = _core.PlannedAllocator(memory, is_plain, is_checked)
    except OSError as error:
        raise DeviceError(f"device {device}: {error}") from None
    _decorate(pytorch)
    try:
        _core.install(device, allocator)
    except RuntimeError as error:
        raise DeviceError(f"planned memory is installed once: {error}") from None
    if expandable_segments:
        _expand_segments(pytorch)
    # The interpreter goes before the last tensors do.
    atexit.register(allocator.on_mismatch, None)
    return allocator


@cache
def _decorate(pytorch: Any) -> None:
    """Put ours before PyTorch's allocator, once in the process and for all devices."""
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        raise DeviceError(
            "PYTORCH_NO_CUDA_MEMORY_CACHING is set, which leaves all memory to the driver; unset it"
        )
    library = load_decorator(pytorch)
    library.gapless_decorate.argtypes = (ctypes.c_void_p,)
    library.gapless_decorate.restype = ctypes.c_char_p
    refused: bytes | None = library.gapless_decorate(_core.serving_table())
    if refused is not None:
        raise DeviceError(refused.decode(errors="replace"))


def _expand_segments(pytorch: Any) -> None:
    said = any(os.environ.get(variable) for variable in _SETTINGS)
    if said or pytorch.cuda.memory.get_allocator_backend() != "native":
        return
    if not pytorch._C._accelerator_getAllocatorSettings():
        pytorch._C._accelerator_setAllocatorSettings("expandable_segments:True")


def _pytorch_with_cuda() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            "planned memory serves PyTorch, which is not installed; pip install -e '.[torch]'"
        ) from None
    if torch.version.cuda is None:
        raise DeviceError(
            f"PyTorch {torch.__version__} is built without CUDA; install a build that has it"
        )
    return torch
