"""The kernels a GPU would run, chosen while a step is traced on fake CPU tensors.

Note: why functions are replaced
--------------------------------
Rationale. A composite operator picks its kernels by the device of its arguments. On fake CPU
tensors dropout becomes a float mask times the input, where a GPU keeps one byte an element, and
attention keeps what the CPU kernel keeps; BERT's peak comes out 28 % off. Fake *CUDA* tensors
would settle this, but autograd asks the CUDA backend for its device guard, and a PyTorch built
without CUDA then aborts the process.

Approach. The two functions of ``torch.nn.functional`` that differ are replaced, while tracing, by
ones that call the operators a GPU would reach. They are replaced in the module and not by a
``TorchFunctionMode``, because such a mode is not active when activation checkpointing recomputes.

Limits. Only what the registered models call is covered: dropout, and attention as float32 runs
it, which is the memory-efficient kernel (flash attention takes 16-bit floats alone).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional

from planners.errors import InstanceError

# The memory-efficient kernel wants rows of the mask to start at multiples of 8 elements.
MASK_ALIGNMENT = 8


@contextmanager
def gpu_kernels() -> Iterator[None]:
    """Within this context dropout and attention are traced as on a GPU.

    Yields
    ------
    None
        The functions are put back at the end.
    """
    with (
        mock.patch.object(functional, "dropout", fused_dropout),
        mock.patch.object(functional, "scaled_dot_product_attention", efficient_attention),
    ):
        yield


def fused_dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop elements by the fused kernel, which keeps a mask of one byte an element.

    Parameters
    ----------
    input
        Any shape.
    p
        Probability of an element to be dropped.
    training
        Nothing is dropped otherwise.
    inplace
        Must be false: the fused kernel has no in-place form.

    Returns
    -------
    torch.Tensor
        Shape and dtype of `input`.

    Raises
    ------
    InstanceError
        The model asks for dropout in place.
    """
    if inplace:
        raise InstanceError(
            "the model drops elements in place, for which GPUs have no fused kernel; "
            "only dropout into a new tensor is covered"
        )
    if not training or p == 0:
        return input
    dropped: Tensor = torch.native_dropout(input, p, training)[0]
    return dropped


def efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attend by the memory-efficient kernel, which keeps no attention matrix.

    Parameters
    ----------
    query, key, value
        (batch, heads, tokens, width), float32.
    attn_mask
        Boolean (true: attend) or added to the scores; broadcasts to
        (batch, heads, query tokens, key tokens).
    dropout_p, is_causal, scale, enable_gqa
        As in :func:`torch.nn.functional.scaled_dot_product_attention`; grouped queries are not
        covered.

    Returns
    -------
    torch.Tensor
        (batch, heads, query tokens, width).

    Raises
    ------
    InstanceError
        The model asks for attention that is not covered.
    """
    if enable_gqa or query.dtype != torch.float32:
        raise InstanceError(
            f"attention is covered for float32 without grouped queries, found {query.dtype}"
            f"{' with grouped queries' if enable_gqa else ''}"
        )
    bias = None if attn_mask is None else attention_bias(attn_mask, query, key)
    keep_log_sum_exp = torch.is_grad_enabled() and query.requires_grad
    attended: Tensor = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, keep_log_sum_exp, dropout_p, is_causal, scale=scale
    )[0]
    return attended


def attention_bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Return what is added to the scores for a mask, laid out as the kernels want it.

    Parameters
    ----------
    mask
        Boolean (true: attend) or added to the scores.
    query, key
        (batch, heads, tokens, width).

    Returns
    -------
    torch.Tensor
        (batch, heads, query tokens, key tokens).
    """
    if mask.dtype == torch.bool:
        bias = torch.zeros_like(mask, dtype=query.dtype, memory_format=torch.contiguous_format)
        mask = bias.masked_fill_(mask.logical_not(), float("-inf"))
    width = mask.shape[-1]
    if width % MASK_ALIGNMENT:
        padded = functional.pad(mask, (0, MASK_ALIGNMENT - width % MASK_ALIGNMENT))
        mask = padded[..., :width]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
