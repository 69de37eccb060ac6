"""A user's program that asks for a GPU gets tensors that are counted as a GPU's.

Note: why "cuda" becomes "cpu"
------------------------------
Rationale. Loops are written for a GPU: ``.cuda()``, ``device="cuda"``, ``autocast("cuda")``. Where
there is none, PyTorch refuses the first two and silently leaves out the third, whose casts are a
good part of a step's memory. Fake CUDA tensors need a PyTorch with CUDA (see
:mod:`instances.extract.tracing.gpu_kernels`), and a trace should not depend on where it is made.

Approach. Device arguments that name CUDA are made to name the CPU, whose fake tensors count as
the GPU's. Autocast of CUDA becomes that of the CPU, which casts as CUDA's does meanwhile (see
:mod:`instances.extract.eager.cuda_autocast`). PyTorch says that no GPU is there, so that
``"cuda" if torch.cuda.is_available() else "cpu"`` is the same everywhere. Optimizers and the
clipping of gradients take many tensors at once (``foreach``), as they do by themselves on a GPU.

Limits. ``torch.cuda.synchronize`` and its kin, which need a GPU, are refused by PyTorch with the
user's line, and a program that compares ``tensor.device.type`` with ``"cuda"`` finds another. Where
activation checkpointing recomputes, such a mode is not active: a forward pass that names CUDA
itself, instead of taking the device of its inputs, is refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.amp.autocast_mode import autocast
from torch.optim import optimizer
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils

_CPU = torch.device("cpu")
_TAKES_DEVICE = (Tensor.to, Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full)


# PyTorch leaves these untyped; the names let types check alike with PyTorch and without.
_Mode: Any = TorchFunctionMode


class _NamesAsHost(_Mode):
    def __init__(self, moved: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.moved = moved

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func is Tensor.cuda:
            self.moved(args[0])
            return args[0]
        goes = func is Tensor.to and any(map(_is_cuda, [*args[1:], named.get("device")]))
        if func in _TAKES_DEVICE:
            args = tuple(map(_on_host, args))
        if "device" in named:
            named = {**named, "device": _on_host(named["device"])}
        result = func(*args, **named)
        if goes:
            self.moved(result)
        return result


def _on_host(value: Any) -> Any:
    return _CPU if _is_cuda(value) else value


def _is_cuda(value: Any) -> bool:
    named = isinstance(value, str) and value.partition(":")[0] == "cuda"
    return named or (isinstance(value, torch.device) and value.type == "cuda")


@contextmanager
def cuda_named_cpu(moved: Callable[[Tensor], None] = lambda _tensor: None) -> Iterator[None]:
    """Within this context a program that is written for a GPU runs on fake tensors of the CPU.

    Each tensor that the program moves to the GPU is passed to `moved`.
    """
    with ExitStack() as stack:
        for target, name, value in (
            (torch.cuda, "is_available", _never),
            (torch.nn.Module, "_apply", _convert),
            (torch.nn.init, "_no_grad_trunc_normal_", _undrawn),
            (autocast, "__init__", _autocast_on_host(autocast.__init__)),
            (optimizer, "_get_foreach_kernels_supported_devices", _cpu_too),
            (optimizer, "_foreach_supported_types", _with_fake(optimizer)),
            (_foreach_utils, "_foreach_supported_types", _with_fake(_foreach_utils)),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        stack.enter_context(_NamesAsHost(moved))
        yield


def _autocast_on_host(begin: Callable[..., None]) -> Callable[..., None]:
    def begin_on_host(
        context: autocast, device_type: str, dtype: torch.dtype | None = None, *args: Any, **kw: Any
    ) -> None:
        if device_type == "cuda":
            # The two devices have defaults of their own.
            dtype = torch.get_autocast_dtype("cuda") if dtype is None else dtype
            device_type = "cpu"
        begin(context, device_type, dtype, *args, **kw)

    return begin_on_host


def _convert(module: Any, convert: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
    """Convert parameters and buffers as ``Module.to`` does, which cannot swap fake tensors."""
    for child in module.children() if recurse else ():
        child._apply(convert)
    for parameter in module._parameters.values():
        if parameter is not None:
            with torch.no_grad():
                parameter.data = convert(parameter)
    for name, buffer in module._buffers.items():
        module._buffers[name] = None if buffer is None else convert(buffer)
    return module


def _undrawn(tensor: Tensor, *_: Any, **__: Any) -> Tensor:
    """Stand for a draw that repeats while a value is out of bounds; fake values never say so."""
    return tensor


def _with_fake(library: Any) -> list[type]:
    # Distributed tensors are in this list as soon as they are imported.
    return [*library._foreach_supported_types, FakeTensor]


def _never() -> bool:
    return False


def _cpu_too() -> list[str]:
    return ["cuda", "cpu"]
