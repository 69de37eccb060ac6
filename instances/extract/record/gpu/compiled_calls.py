"""``torch.compile`` in a traced program: Inductor's own program asks for memory, without a GPU.

Note: what of the compiler runs
-------------------------------
Rationale. A compiled program keeps other tensors for its backward pass than an eager one, and
allocates no result that is fused away. Dynamo, AOTAutograd's partitioner and Inductor's scheduler
decide which; all of them are Python.

Approach. PyTorch compiles as it does on an H100, up to the program that launches kernels. Each
graph is captured on fake tensors of the CPU, then names CUDA before Inductor lowers it. No kernel
is compiled. The program runs on fake tensors, so that the mode sees what it allocates, reuses and
frees; its kernels do nothing. Code between two graphs runs eagerly. The compiler asks a GPU nothing
but its properties, yet operators on fake CUDA tensors ask for a guard of the device. A PyTorch
without CUDA has none, so that of the device meta, which does nothing, stands in its place.

CUDA graphs are those of ``traced_trees.py`` beside this file.

Limits. What the compilation and its measurements allocate on the GPU is not recorded. Kernels are
not chosen by time, as under ``TORCHINDUCTOR_DETERMINISTIC``: a matrix product is not padded.
If a PyTorch lacks one of the internal names, programs are traced eagerly.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, overrides
from torch._subclasses import fake_tensor
from torch.nn.modules import module as of_modules
from torch.utils import _python_dispatch as of_modes
from torch.utils import _pytree as pytree

from instances.extract.record.gpu.read_numbers import note
from instances.extract.record.gpu.traced_trees import traced_trees
from instances.extract.record.requests.allocation_mode import AllocationMode

_COMPILED = (
    "torch.compile: what the compiler itself allocates on the GPU is left out, and no matrix "
    "product is padded; keep 8 % free, as a compiled GPT-2 was once predicted as much too low"
)
_EAGER = "torch.compile: traced eagerly; a compiled program may need less"
_NOT_TUNED = "torch.compile: what tuning allocates is not predicted"
_UNTUNED: dict[Any, str] = {
    "max-autotune": "reduce-overhead",
    "max-autotune-no-cudagraphs": "default",
}
_TRACED = ("inductor", "eager", "aot_eager")
_GPU, _HOST = torch.device("cuda", 0), torch.device("cpu")
# The numbers of these devices in PyTorch.
_CUDA, _META = 1, 14
_FLAG = "_is_in_any_mode_without_ignore_compile_internals"
_SET_FLAG = "set_is_in_mode_without_ignore_compile_internals"
_Call = Callable[..., Any]
_AUTOCAST = {name: getattr(torch, name) for name in ("is_autocast_enabled", "get_autocast_dtype")}


def _always(answer: object) -> Callable[..., Any]:
    return lambda *_, **__: answer


_nothing = _always(None)


@contextmanager
def compiled_calls(
    mode: AllocationMode, properties: object, within: Callable[[_Call], _Call]
) -> Iterator[None]:
    """Within this context compiled programs ask for memory as on a GPU of these properties.

    `within` returns a function in which CUDA is named.
    """
    compile_it = torch.compile
    begun: list[bool] = []

    def compiled(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda decorated: compiled(decorated, **options)
        if not begun:
            try:
                stack.enter_context(_without_gpu(mode, properties))
                stack.enter_context(traced_trees(mode, within, _alone))
                begun.append(True)
            except (AttributeError, ImportError):  # another PyTorch
                begun.append(False)
        if not begun[0] or options.get("backend", "inductor") not in _TRACED:
            note(_EAGER)
            return model
        options = _untuned(options)
        mode.notes[_COMPILED] = None
        made = compile_it(model, **options)
        if isinstance(made, torch.nn.Module):
            made.forward = _called(made.forward, None)
            return made
        owner = getattr(model, "__self__", None)
        return _called(made, owner if isinstance(owner, torch.nn.Module) else None)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch, "compile", compiled))
        yield


def _untuned(options: dict[str, Any]) -> dict[str, Any]:
    chosen, more = options.get("mode"), options.get("options") or {}
    kept = {name: value for name, value in more.items() if "autotune" not in name}
    if chosen in _UNTUNED or len(kept) < len(more):
        note(_NOT_TUNED)
    return options | {"mode": _UNTUNED.get(chosen, chosen), "options": kept or None}


def _called(run: Callable[..., Any], module: Any) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        before, after = (list(hooks.values()) for hooks in _hooks())
        for hook in before if module is not None else ():
            hook(module, args)
        try:
            with _known_to_dynamo():
                return run(*args, **named)
        finally:
            for hook in after if module is not None else ():
                hook(module, args, None)

    return call


def _hooks() -> list[Any]:
    return [of_modules._global_forward_pre_hooks, of_modules._global_forward_hooks]


@contextmanager
def _known_to_dynamo() -> Iterator[None]:
    """Within this context Dynamo neither traces the hooks of all modules nor shuns the mode."""
    set_flag, before = (getattr(of_modes, name) for name in (_SET_FLAG, _FLAG))
    with ExitStack() as stack:
        for hooks in _hooks():
            stack.enter_context(mock.patch.dict(hooks, clear=True))
        stack.enter_context(mock.patch.object(of_modes, _FLAG, False))
        ignored = _always(True)
        stack.enter_context(mock.patch.object(AllocationMode, "ignore_compile_internals", ignored))
        stack.callback(set_flag, before)
        set_flag(False)
        yield


@contextmanager
def _without_gpu(mode: AllocationMode, properties: object) -> Iterator[None]:
    from torch._dynamo import config as dynamo
    from torch._dynamo import convert_frame, exc, output_graph
    from torch._dynamo.device_interface import CudaInterface
    from torch._dynamo.variables import streams, torch_function
    from torch._functorch import config as functorch
    from torch._inductor import async_compile, codecache, compile_fx, config, scheduler
    from torch._prims import rng_prims
    from torch.utils import _triton

    for name in (_SET_FLAG, _FLAG):
        getattr(of_modes, name)  # which a compiled call needs
    lower, convert = compile_fx.fx_codegen_and_compile, convert_frame._compile
    load = codecache.PyCodeCache.load_by_key_path
    save = output_graph.OutputGraph.save_global_state
    begin = torch_function.SymbolicTorchFunctionState.__init__

    def converted(*args: Any, **named: Any) -> Any:
        try:
            return convert(*args, **named)
        except (exc.BackendCompilerFailed, exc.InternalTorchDynamoError):
            note(_EAGER)
            raise

    def saved(*args: Any, **named: Any) -> None:
        with mock.patch.multiple(torch, **_AUTOCAST):
            save(*args, **named)

    def lowered(graph: Any, inputs: Any, to_check: Any, **named: Any) -> Any:
        _name_gpu(graph)
        with _no_function_modes(), of_modes._disable_current_modes(), _device_guard():
            return lower(graph, [_on_gpu(one) for one in inputs], to_check, **named)

    def loaded(*args: Any, **named: Any) -> Any:
        triton: Any = ModuleType("triton")
        triton.language = ModuleType("triton.language")
        absent = {"triton": triton, "triton.language": triton.language}
        with mock.patch.dict(sys.modules, absent):
            program: Any = load(*args, **named)
        vars(program).update(_names(mode))
        program.call = _alone(program.call)
        return program

    with ExitStack() as stack:
        for owner, name, value in (
            (torch_function.SymbolicTorchFunctionState, "__init__",
             lambda state, _, *args, **named: begin(state, (), *args, **named)),
            (streams.SymbolicStreamState, "__init__",
             lambda state: setattr(state, "cur_stream_stack", deque())),
            (output_graph.OutputGraph, "save_global_state", saved),
            (convert_frame, "_compile", converted),
            (convert_frame.log, "disabled", True),
            (compile_fx, "fx_codegen_and_compile", lowered),
            (codecache.PyCodeCache, "load_by_key_path", loaded),
            (async_compile.AsyncCompile, "triton", _always(SimpleNamespace(run=_nothing))),
            (scheduler, "has_triton", _always(True)),
            (_triton, "triton_hash_with_backend", _always("")),
            (fake_tensor, "init_gpu_context", _nothing),
            (torch.cuda, "get_rng_state", torch.get_rng_state),
            (torch.cuda, "device", nullcontext),
            (torch.cuda, "_DeviceGuard", nullcontext),
            (CudaInterface, "device", nullcontext),
            (CudaInterface, "current_device", _always(0)),
            (CudaInterface, "synchronize", _nothing),
            (CudaInterface, "get_device_properties", _always(properties)),
            (CudaInterface.Worker, "get_device_properties", _always(properties)),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(owner, name, value))
        for operator, rule in (
            (rng_prims.run_and_save_rng_state, _saved_and_run),
            (rng_prims.run_with_rng_state, lambda _, run, *args, **named: run(*args, **named)),
        ):
            rules = {type(mode): _within(rule)}
            stack.enter_context(mock.patch.dict(operator.python_key_table, rules))
        stack.enter_context(warnings.catch_warnings())
        for said in ("Using `torch.compile", "dynamo_pgo force disabled"):
            warnings.filterwarnings("ignore", said)
        stack.enter_context(dynamo.patch(suppress_errors=True))
        stack.enter_context(functorch.patch(force_non_lazy_backward_lowering=True))
        stack.enter_context(config.patch(force_disable_caches=True, deterministic=True))
        yield


def _alone(run: _Call) -> _Call:
    """Return a function that runs without modes of functions."""

    def run_alone(given: Any) -> Any:
        with _no_function_modes():
            return run(given)

    return run_alone


def _within(rule: Callable[..., Any]) -> Callable[..., Any]:
    def run(mode: AllocationMode, *args: Any, **named: Any) -> Any:
        with mode:
            return rule(*args, **named)

    return run


def _saved_and_run(run: Callable[..., Any], *args: Any, **named: Any) -> tuple[Tensor, Any]:
    """Run an operator, and save a state of random numbers, which are the host's here."""
    return torch.empty(0, dtype=torch.uint8), run(*args, **named)


@contextmanager
def _no_function_modes() -> Iterator[None]:
    stack: Any = overrides
    modes = [stack._pop_mode() for _ in range(torch._C._len_torch_function_stack())]
    try:
        yield
    finally:
        for one in reversed(modes):
            stack._push_mode(one)


@contextmanager
def _device_guard() -> Iterator[None]:
    """Within this context operators on fake CUDA tensors need no PyTorch with CUDA."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    name = "_ZN3c104impl26device_guard_impl_registryE"
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, name)
    before = guards[_CUDA]
    guards[_CUDA] = before or guards[_META]
    try:
        yield
    finally:
        guards[_CUDA] = before


def _name_gpu(graph: Any) -> None:
    for part in graph.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            named = (node.args, node.kwargs)
            node.args, node.kwargs = pytree.tree_map(_gpu_for_host, named)


def _gpu_for_host(value: Any) -> Any:
    return _GPU if isinstance(value, torch.device) and value == _HOST else value


def _on_gpu(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    fake: Any = value
    with fake.fake_mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_GPU)


def _names(mode: AllocationMode) -> dict[str, Any]:
    """Return what stands for the names that a program of Inductor calls."""

    def empty(shape: Any, stride: Any, dtype: Any) -> Tensor:
        with mode.called((), True):
            return torch.empty_strided(shape, stride, dtype=dtype)

    def view(of: Tensor, shape: Any, stride: Any, offset: int = 0) -> Tensor:
        return of.as_strided(shape, stride, of.storage_offset() + offset)

    class Kernels:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def run(*args: Any, out: Any = None, **named: Any) -> Any:
                if out is None:
                    return getattr(torch, name)(*args, **named)
                mode.use_library(f"{name}.default")
                return out

            return run

    return {
        "empty_strided_cuda": empty,
        "reinterpret_tensor": view,
        "extern_kernels": Kernels(),
        "device": _always(_HOST),
        "copy_if_misaligned": lambda tensor: tensor,
        **dict.fromkeys(["assert_size_stride", "assert_alignment", "get_raw_stream"], _nothing),
    }
