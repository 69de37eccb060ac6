"""A user's program that asks for a GPU gets tensors that are counted as a GPU's.

Note: why "cuda" becomes "cpu"
------------------------------
Rationale. Loops are written for a GPU: ``.cuda()``, ``device="cuda"``, ``autocast("cuda")``. Where
there is none, PyTorch refuses the first two and silently leaves out the third, whose casts are a
good part of a step's memory. Fake CUDA tensors need a PyTorch with CUDA (see
:mod:`instances.extract.record.gpu.gpu_kernels`), and a trace should not depend on where it is made.

Approach. Device arguments that name CUDA are made to name the CPU, and the recording mode is told
where results are. A tensor that a program put on the GPU says that it is there when the program
asks; PyTorch's own code finds the CPU. Autocast of CUDA becomes that of the CPU, which casts as
CUDA's does meanwhile (``cuda_autocast.py`` beside this file). Numbers that a program reads are
those of ``read_numbers.py``, and ``torch.cuda`` answers for a GPU (``gpu_answers.py``). Optimizers
and the clipping of gradients take many tensors at once (``foreach``), as they do by themselves on a
GPU.

PyTorch suspends a mode while one of its calls runs. Python that runs within, such as a hook of
saved tensors or of the backward pass, finds the mode again: it is entered anew around both.

Limits. A program that mixes tensors of the host and the GPU, which PyTorch refuses, is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import wraps
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.amp.autocast_mode import autocast
from torch.autograd.graph import saved_tensors_hooks
from torch.optim import optimizer
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _foreach_utils
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import _disable_current_modes, is_traceable_wrapper_subclass

from instances.extract.record.gpu.compiled_calls import compiled_calls
from instances.extract.record.gpu.gpu_answers import PROPERTIES, gpu_answered
from instances.extract.record.gpu.read_numbers import plain, stand_in
from instances.extract.record.requests.allocation_mode import AllocationMode
from instances.extract.record.requests.engine_addition import in_engine

_CPU = torch.device("cpu")
_SETS_DATA = vars(torch._C.TensorBase)["data"].__set__
_ASKS_FOR_DEVICE: dict[Any, Callable[[torch.device], Any]] = {
    vars(torch._C.TensorBase)["device"].__get__: lambda device: device,
    vars(torch._C.TensorBase)["is_cuda"].__get__: lambda device: device.type == "cuda",
    vars(torch._C.TensorBase)["is_cpu"].__get__: lambda device: device.type == "cpu",
    Tensor.get_device: lambda device: -1 if device.index is None else device.index,
}
# Calls that move a tensor: True to the GPU, False to the host, which has the pinned memory too.
_MOVES = {Tensor.cuda: True, Tensor.cpu: False, Tensor.pin_memory: False}
_READS = (Tensor.item, Tensor.__float__, Tensor.__int__)
_READS_ALL = (Tensor.tolist, Tensor.numpy, Tensor.__array__)
# Whole numbers drawn on the host choose items of data, so they have values, as constants have.
_DRAWS_CHOICES = (torch.randint, torch.randperm)
# Elements of a constant whose values are kept; PyTorch keeps one. A guess.
MOST_CONSTANT_ELEMENTS = 1 << 20


# PyTorch leaves these untyped; the names let types check alike with PyTorch and without.
_Mode: Any = TorchFunctionMode
_fake_mode: Any = detect_fake_mode
_active_modes: Any = _get_current_function_mode_stack


class _NamesAsHost(_Mode):
    def __init__(self, mode: AllocationMode) -> None:
        super().__init__()
        self.mode = mode
        # The device of tensors that name none.
        self.default: Any = None

    def set_default(self, device: Any) -> None:
        """Stand for ``torch.set_default_device``."""
        self.default = device

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if args and isinstance(args[0], Tensor):
            if func in _ASKS_FOR_DEVICE:
                return _ASKS_FOR_DEVICE[func](self.place_of(args[0]))
            if func is Tensor.data_ptr:
                begin = self.mode.address_of(self.mode.storage_of(args[0]))
                return begin + args[0].storage_offset() * args[0].element_size()
            if func in _MOVES:
                return self._moved(args[0], _MOVES[func], lambda: args[0])
            if func is Tensor.to:
                return self._moved_as_told(args, named)
            if func == _SETS_DATA and not in_engine():  # where shards change places
                self.mode.on_write(args[0])
        if args and isinstance(args[0], FakeTensor):
            if func in _READS and args[0].constant is None:
                return _of_type(func, stand_in(args[0].dtype))
            if func is Tensor.__format__ and not args[0].dim():
                return format(stand_in(args[0].dtype), args[1])
            if func is Tensor.__deepcopy__:
                return _copied(*args)
            if func in _READS_ALL:
                return _values(func, args[0])
        if func is torch.asarray and isinstance(args[0], torch.UntypedStorage):
            # A file of weights is read: the bytes of a slice.
            with _disable_current_modes():
                read = func(*args, **named)
            return _fake_mode().from_tensor(read)
        to_gpu = None
        if func in (torch.tensor, torch.as_tensor):
            args = pytree.tree_map(plain, args)
        if func is torch.device and type(args[0]) is int:
            return torch.device("cuda", *args)
        if self.default is not None and func in _device_constructors():
            named = {"device": self.default, **named}
        if named.get("device") is not None:
            device = _named_cuda(named["device"])
            to_gpu = self._is_gpu(device)
            named = {**named, "device": _on_host(device)}
        with self.mode.called((args, named), to_gpu):
            made = func(*args, **named)
        is_choice = func in _DRAWS_CHOICES and not self.mode.is_on_gpu(made)
        if is_choice and made.numel() <= MOST_CONSTANT_ELEMENTS:
            with _disable_current_modes():
                drawn = func(*args, **named)
            return torch.ops.aten.lift_fresh(drawn)
        return made

    def _moved_as_told(self, args: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
        args = tuple(map(_named_cuda, args))
        named = {name: _named_cuda(value) for name, value in named.items()}
        goes = [self._is_gpu(value) for value in [*args[1:], *named.values()]]
        to_gpu = next((one for one in goes if one is not None), None)
        args = tuple(map(_on_host, args))
        named = {name: _on_host(value) for name, value in named.items()}
        return self._moved(args[0], to_gpu, lambda: Tensor.to(*args, **named))

    def _moved(self, tensor: Tensor, to_gpu: bool | None, move: Callable[[], Tensor]) -> Tensor:
        """Return a tensor that was moved to the GPU or to the host: a copy, if it was not there."""
        with self.mode.called(tensor, to_gpu):
            moved = move()
            if to_gpu is not None and to_gpu is not self.mode.is_on_gpu(moved):
                moved = moved.clone()
        return moved

    def _is_gpu(self, value: Any) -> bool | None:
        """Return True if a device or a tensor is that of a GPU; None for any other object."""
        if isinstance(value, Tensor):
            return self.mode.is_on_gpu(value)
        return _is_cuda(value) if isinstance(value, (str, torch.device)) else None

    def place_of(self, tensor: Tensor) -> torch.device:
        """Return the device that the program is told for a tensor."""
        if self.mode.is_on_gpu(tensor):
            return torch.device("cuda", torch.cuda.current_device())
        with torch._C.DisableTorchFunctionSubclass():
            found: torch.device = _device_of(tensor)
        return found

    def device_of(self, tensor: FakeTensor) -> torch.device:
        """Stand for the property of fake tensors, which PyTorch's own code asks as well."""
        inside = self.mode.is_inside or tensor.fake_mode.in_kernel_invocation
        # While the mode is suspended, PyTorch asks.
        if torch._C._len_torch_function_stack() > 0 and not inside:
            return self.place_of(tensor)
        found: torch.device = _device_of(tensor)
        return found

    def within(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that PyTorch calls within one of its own, where the mode is active."""

        def run_within(*args: Any, **named: Any) -> Any:
            with nullcontext() if self in _active_modes() else self:
                return run(*args, **named)

        return run_within

    def begin_hooks(self, begin: Callable[..., None]) -> Callable[..., None]:
        """Return the constructor of hooks of saved tensors, within which the mode is active."""

        def begin_within(hooks: Any, pack: Any, unpack: Any) -> None:
            begin(hooks, self.within(pack), self.within(unpack))

        return begin_within


# PyTorch's own properties.
_of_fake: Any = vars(FakeTensor)["device"].fget
_of_any: Any = vars(torch._C.TensorBase)["device"].__get__


def _device_of(tensor: Tensor) -> Any:
    return _of_fake(tensor) if isinstance(tensor, FakeTensor) else _of_any(tensor)


def _of_type(func: Any, value: Any) -> Any:
    if func is Tensor.item:
        return value
    return float(value) if func is Tensor.__float__ else int(value)


def _copied(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(tensor) not in memo:
        copy = tensor.detach().clone(memory_format=torch.preserve_format)
        memo[id(tensor)] = copy.requires_grad_(tensor.requires_grad)
    found: Tensor = memo[id(tensor)]
    return found


def _values(func: Any, tensor: Tensor) -> Any:
    known = getattr(tensor, "constant", None)
    with _disable_current_modes():
        host = torch.ones(tensor.shape, dtype=tensor.dtype) if known is None else known.clone()
        return host.tolist() if func is Tensor.tolist else host.numpy()


def _on_host(value: Any) -> Any:
    return _CPU if _is_cuda(value) else value


def _named_cuda(value: Any) -> Any:
    """Return the name of the device that a number stands for, and anything else as it is."""
    return "cuda" if type(value) is int else value


def _moved_by_name(move: Callable[..., Any]) -> Callable[..., Any]:
    def run(module: Any, *args: Any, **named: Any) -> Any:
        # As a keyword, it would be taken for the device of a new tensor.
        if "device" in named:
            args = (named.pop("device"), *args)
        return move(module, *map(_named_cuda, args), **named)

    return run


def _is_cuda(value: Any) -> bool:
    named = isinstance(value, str) and value.partition(":")[0] == "cuda"
    return named or (isinstance(value, torch.device) and value.type == "cuda")


@contextmanager
def cuda_named_cpu(mode: AllocationMode, device: int = 0, devices: int = 1) -> Iterator[None]:
    """Within this context a program that is written for a GPU runs on fake tensors of the CPU.

    The mode learns which tensors the program puts on the GPU, which is `device` of `devices`.
    """
    names = _NamesAsHost(mode)
    run_engine: Any = vars(torch.autograd)["_engine_run_backward"]
    with ExitStack() as stack:
        stack.enter_context(gpu_answered(device, devices))
        for target, name, value in (
            (fake_tensor, "CONSTANT_NUMEL_LIMIT", MOST_CONSTANT_ELEMENTS),
            (FakeTensor, "device", property(names.device_of)),
            (torch, "set_default_device", names.set_default),
            (torch.autograd, "_engine_run_backward", names.within(run_engine)),
            (saved_tensors_hooks, "__init__", names.begin_hooks(saved_tensors_hooks.__init__)),
            (torch.nn.Module, "_apply", _convert),
            (torch.nn.Module, "to", _moved_by_name(torch.nn.Module.to)),
            (torch.nn.init, "_no_grad_trunc_normal_", _undrawn),
            (autocast, "__init__", _autocast_on_host(autocast.__init__)),
            (optimizer, "_get_foreach_kernels_supported_devices", _cpu_too),
            (optimizer, "_foreach_supported_types", _with_fake(optimizer)),
            (_foreach_utils, "_foreach_supported_types", _with_fake(_foreach_utils)),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        stack.enter_context(compiled_calls(mode, PROPERTIES, names.within))
        stack.enter_context(names)
        yield


def _autocast_on_host(begin: Callable[..., None]) -> Callable[..., None]:
    @wraps(begin)  # Dynamo asks for the signature
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
    for name, parameter in module._parameters.items():
        if parameter is not None:
            with torch.no_grad():
                converted = convert(parameter)
            if is_traceable_wrapper_subclass(converted):
                swapped = torch.nn.Parameter(converted, parameter.requires_grad)
                torch.utils.swap_tensors(parameter, swapped)
            elif torch._has_compatible_shallow_copy_type(parameter, converted):
                parameter.data = converted
            else:  # from the device meta
                module._parameters[name] = torch.nn.Parameter(converted, parameter.requires_grad)
    for name, buffer in module._buffers.items():
        module._buffers[name] = None if buffer is None else convert(buffer)
    return module


def _undrawn(tensor: Tensor, *_: Any, **__: Any) -> Tensor:
    """Stand for a draw that repeats while a value is out of bounds; fake values never say so."""
    return tensor


def _with_fake(library: Any) -> list[type]:
    # Distributed tensors are in this list as soon as they are imported.
    return [*library._foreach_supported_types, FakeTensor]


def _cpu_too() -> list[str]:
    return ["cuda", "cpu"]
