"""Serves PyTorch's CUDA allocations by an allocator of ours first, then by PyTorch's own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from gpu_runtime import _core
from gpu_runtime.allocator.pytorch.compiled_decorator import UnknownPyTorchError, load_decorator
from planners.errors import DeviceError, MissingDependencyError

Serving = TypeVar("Serving", bound=_core.ServingAllocator)

_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def serve_pytorch(
    device: int,
    make: Callable[[_core.CudaMemory], Serving],
    *,
    expandable_segments: bool = False,
    on_unknown: Callable[[str], None] | None = None,
) -> Serving:
    """Make an allocator that gets the requests of a device first, until the process ends.

    PyTorch may have used CUDA already; it keeps its earlier blocks.

    Parameters
    ----------
    make
        Returns the allocator over the memory of the device.
    expandable_segments
        Whether to give PyTorch's own allocator expandable segments; settings of the user win.
    on_unknown
        Called with the reason if this version of PyTorch is not supported. Then PyTorch's own
        allocator serves, and the returned one gets no request. Without it an error is raised.

    Raises
    ------
    MissingDependencyError
        PyTorch, a compiler or CUDA's headers are not installed.
    DeviceError
        The driver or the device is missing, this PyTorch is not supported, or the device has an
        installed allocator already.
    """
    pytorch = _pytorch_with_cuda()
    try:
        allocator = make(_core.CudaMemory(device))
    except (OSError, MemoryError) as error:
        raise DeviceError(f"device {device}: {error}") from None
    try:
        _decorate(pytorch)
    except UnknownPyTorchError as error:
        if on_unknown is None:
            raise
        on_unknown(str(error))
        return allocator
    try:
        _core.install(device, allocator)
    except RuntimeError as error:
        raise DeviceError(f"one installation is enough: {error}") from None
    if expandable_segments:
        _expand_segments(pytorch)
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
            "planned memory serves PyTorch, which is not installed", "torch"
        ) from None
    if torch.version.cuda is None:
        raise DeviceError(
            f"PyTorch {torch.__version__} is built without CUDA; install a build that has it"
        )
    return torch
