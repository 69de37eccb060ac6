"""The casts of CUDA's autocast, made on CPU tensors.

Note: why the CPU's autocast casts as CUDA's would
--------------------------------------------------
Rationale. ``torch.autocast("cuda")`` casts CUDA tensors alone, and tensors are CPU tensors here
(see :mod:`instances.extract.record.gpu.gpu_kernels`). ``torch.autocast("cpu")`` takes them, but by
lists of its own: on CUDA layer norm, softmax, powers and losses run in float32, on a CPU they keep
bfloat16; on a CPU cross-entropy is cast as a whole, on CUDA only its parts are. On GPT-2 that is
half the bytes of every layer.

Approach. The dispatcher of any build of PyTorch knows both lists. An operator that only CUDA casts
gets a kernel here with CUDA's behaviour; one that only the CPU casts is passed through. Operators
that both cast to bfloat16 (matrix products, convolutions, attention) are left to
PyTorch, and with it the cache of cast weights that lives until the outermost autocast ends. The
kernels are registered in the dispatcher and not in a mode, because a mode is not active when
activation checkpointing recomputes; they are taken out again at the end.

Limits. ``norm`` keeps its input's dtype, where CUDA accumulates in float32 without a cast. An
operator that both lists have in different groups would follow the CPU's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, fallthrough_kernel
from torch.utils import _pytree as pytree

# Composed of operators that are cast themselves, or without an equivalent that takes the casts.
LEFT_ALONE = frozenset(
    {
        "_convolution", "convolution", "cudnn_convolution", "cudnn_convolution_transpose",
        "einsum", "chain_matmul", "linalg_multi_dot", "_thnn_fused_gru_cell",
        "_thnn_fused_lstm_cell", "gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell",
        "_scaled_dot_product_flash_attention", "norm.Scalar", "norm.ScalarOpt_dim",
    }
)  # fmt: skip
# Cast to the precision of autocast.
LOWER_PRECISION = frozenset({"mv", "addmv", "addr"})
# Cast to the widest dtype among the arguments.
PROMOTE = frozenset(
    {
        "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "index_put",
        "scatter_add", "tensordot",
    }
)  # fmt: skip
# Given float32 as the dtype of the result, in which the kernel accumulates: no cast copy.
SET_RESULT_DTYPE = frozenset(
    {
        "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum",
        "linalg_vector_norm", "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum",
        "sum.dim_IntList",
    }
)  # fmt: skip

# PyTorch leaves this untyped.
_library: Callable[[str, str], Any] = Library


@contextmanager
def cuda_autocast_on_cpu() -> Iterator[None]:
    """Within this context ``torch.autocast("cpu")`` casts as ``torch.autocast("cuda")`` does."""
    on_cuda, on_cpu = _registered("AutocastCUDA"), _registered("AutocastCPU")
    library = _library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            # PyTorch warns that its own kernels are overridden, which is the intent.
            warnings.simplefilter("ignore", UserWarning)
            for name in sorted(on_cpu - on_cuda):
                library.impl(name, fallthrough_kernel, "AutocastCPU")
            for name in sorted(on_cuda - on_cpu - LEFT_ALONE):
                library.impl(name, _kernel(name), "AutocastCPU")
        yield
    finally:
        library._destroy()


def _registered(key: str) -> set[str]:
    return {
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_registrations_for_dispatch_key(key)
        if name.startswith("aten::")
    }


def _kernel(name: str) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    prepare = _set_result_dtype if name in SET_RESULT_DTYPE else _caster(name)
    below = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def run(*arguments: Any, **named: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(below):
            arguments, named = prepare(operator, arguments, named)
            return operator(*arguments, **named)

    return run


def _caster(name: str) -> Callable[..., tuple[Any, Any]]:
    def cast(_: Any, arguments: Any, named: Any) -> tuple[Any, Any]:
        dtype = torch.float32
        if name in LOWER_PRECISION:
            dtype = torch.get_autocast_dtype("cpu")
        elif name in PROMOTE:
            dtype = _widest([*arguments, *named.values()])

        def one(value: Any) -> Any:
            return value.to(dtype) if _is_cast(value) else value

        # C++ evaluates arguments from the right; the casts are allocated in that order.
        leaves, spec = pytree.tree_flatten((arguments, named))
        cast_leaves = [one(leaf) for leaf in reversed(leaves)][::-1]
        cast_arguments, cast_named = pytree.tree_unflatten(cast_leaves, spec)
        return cast_arguments, cast_named

    return cast


def _set_result_dtype(operator: Any, arguments: Any, named: Any) -> tuple[Any, Any]:
    position = [argument.name for argument in operator._schema.arguments].index("dtype")
    given = arguments[position] if position < len(arguments) else named.get("dtype")
    if given is None and _is_cast(arguments[0]) and position >= len(arguments):
        named = {**named, "dtype": torch.float32}
    return arguments, named


def _widest(values: list[Any]) -> torch.dtype:
    widest = torch.get_autocast_dtype("cpu")
    for leaf in pytree.tree_leaves(values):
        if _is_cast(leaf) and leaf.dtype == torch.float32:
            widest = torch.float32
    return widest


def _is_cast(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
