"""PyTorch's CUDA allocations, from our allocator."""

from __future__ import annotations

import atexit
import ctypes
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpu_runtime import _core
from planners.errors import DeviceError, MissingDependencyError

# How an allocator says that memory is short; what programs look for.
OUT_OF_MEMORY = "CUDA out of memory"


def serve_pytorch(device: int) -> _core.PlannedAllocator:
    """Make an allocator that serves PyTorch's allocations on a device until the process ends.

    Other devices get a heap of their own.
    """
    pytorch = _pytorch_with_cuda()
    try:
        memory = _core.CudaMemory(device)
    except OSError as error:
        raise DeviceError(f"device {device}: {error}") from None
    allocator = _core.PlannedAllocator(memory)
    pluggable = pytorch.cuda.memory.CUDAPluggableAllocator(
        _core.__file__, "gapless_allocate", "gapless_free"
    )
    library = ctypes.CDLL(_core.__file__)
    pluggable.allocator().set_record_stream_fn(_address_of(library.gapless_use_on))
    pluggable.allocator().set_reset_fn(_address_of(library.gapless_give_back))
    # Before PyTorch asks for anything, which any of its threads may do as soon as it has changed.
    _core.install(device, allocator)
    try:
        pytorch.cuda.memory.change_current_allocator(pluggable)
    except RuntimeError as error:
        raise DeviceError(
            f"PyTorch has used CUDA already and keeps its allocator "
            f"({str(error).splitlines()[0]}); install before the first call that needs a device"
        ) from None
    # The interpreter goes before the last tensors do.
    atexit.register(allocator.on_mismatch, None)
    return allocator


@contextmanager
def pytorch_out_of_memory() -> Iterator[None]:
    """Within this context an error of ours that memory is short becomes PyTorch's own.

    A pluggable allocator cannot raise ``torch.OutOfMemoryError`` itself.
    """
    try:
        yield
    except RuntimeError as error:
        # Not imported here: where PyTorch is not, the error is not its.
        pytorch = sys.modules.get("torch")
        if pytorch and str(error).startswith(OUT_OF_MEMORY) and type(error) is RuntimeError:
            # Whoever goes on after this error needs the memory of what was interrupted, and a
            # chain of two errors may keep its frames until the next collection of cycles.
            traceback.clear_frames(error.__traceback__)
            raise pytorch.OutOfMemoryError(str(error)) from error
        raise


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


def _address_of(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
