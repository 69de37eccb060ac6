"""The kernels a GPU would run, chosen while a step is traced on fake CPU tensors.

Note: why functions are replaced
--------------------------------
Rationale. A composite operator picks its kernels by the device of its arguments. On fake CPU
tensors dropout becomes a float mask times the input, where a GPU keeps one byte an element, and
attention keeps what the CPU kernel keeps; BERT's peak comes out 28 % off. Fake *CUDA* tensors
would settle this, but autograd asks the CUDA backend for its device guard, and a PyTorch built
without CUDA then aborts the process.

Approach. The functions of ``torch.nn.functional`` that differ are replaced, while tracing, by ones
that call the operators a GPU would reach. They are replaced in the module and not by a
``TorchFunctionMode``, because such a mode is not active when activation checkpointing recomputes.
Attention is chosen as PyTorch chooses it on a GPU: 16-bit floats without a mask run the flash
kernel, which knows grouped queries; float32, or a mask, runs the memory-efficient kernel, which
does not, so that grouped queries fall back to plain matrix products. Norms keep their statistics
in float32, where a CPU takes the input's dtype; :data:`FLOAT32_RESULTS` has these norms.

A branch on the values of tensors cannot be traced. transformers takes two such branches before it
leaves a causal mask to the kernel. They are decided here: no row packs several sequences, and the
rows of a decoder are full. Otherwise every decoder would get a mask that no GPU sees.

Limits. Only calls of the registered models are covered. Batch norm and convolutions keep the same
tensors on both devices, except cuDNN's reserved tensors (none for a batch norm without a fused
activation). cuDNN's workspaces are as invisible as all others. Recent PyTorch may prefer cuDNN's
attention to flash, which keeps the same tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional
from transformers import masking_utils

from planners.errors import InstanceError

# The memory-efficient kernel wants rows of the mask to start at multiples of 8 elements.
MASK_ALIGNMENT = 8


# Results that a GPU computes in float32 whatever the input is: means and deviations.
FLOAT32_RESULTS = MappingProxyType({"native_layer_norm": (1, 2), "native_batch_norm": (1, 2)})

# The dtypes that flash attention takes, and the multiple that a head's width must be.
FLASH_DTYPES = (torch.float16, torch.bfloat16)
FLASH_ALIGNMENT = 8


@contextmanager
def gpu_kernels() -> Iterator[None]:
    """Within this context dropout and attention are traced as on a GPU."""
    with (
        mock.patch.object(functional, "dropout", fused_dropout),
        mock.patch.object(functional, "scaled_dot_product_attention", gpu_attention),
        mock.patch.object(masking_utils, "find_packed_sequence_indices", return_value=None),
        mock.patch.object(masking_utils, "_ignore_causal_mask_sdpa", _is_plainly_causal),
    ):
        yield


def fused_dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop elements by the fused kernel, which keeps a mask of one byte an element.

    In place there is no fused kernel: a mask of the input's dtype is multiplied in.
    """
    if inplace:
        return torch.dropout_(input, p, training)
    if not training or p == 0:
        return input
    dropped: Tensor = torch.native_dropout(input, p, training)[0]
    return dropped


def gpu_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attend by the kernel that PyTorch chooses on a GPU, over (batch, heads, tokens, width).

    With grouped queries keys and values have fewer heads. A mask is boolean (true: attend) or added
    to the scores. ``InstanceError`` where the model asks for attention that is not covered.
    """
    attended: Tensor
    if attn_mask is None and query.dtype in FLASH_DTYPES:
        if query.shape[-1] % FLASH_ALIGNMENT:
            raise InstanceError(
                f"flash attention is covered for heads of a multiple of {FLASH_ALIGNMENT} "
                f"elements, found {query.shape[-1]}"
            )
        attended = torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, False, scale=scale
        )[0]
    elif enable_gqa and query.shape[1] != key.shape[1]:
        attended = torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=True
        )[0]
    else:
        bias = None if attn_mask is None else attention_bias(attn_mask, query, key)
        keep_log_sum_exp = torch.is_grad_enabled() and query.requires_grad
        attended = torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, keep_log_sum_exp, dropout_p, is_causal, scale=scale
        )[0]
    return attended


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    scale: float | None,
) -> Tensor:
    """Attend by plain matrix products in float32, as PyTorch does where it has no kernel."""
    root = (query.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    queries, keys, values = (tensor.float() for tensor in (query, key, value))
    scores = (queries * root) @ (keys.transpose(-2, -1) * root)
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill_(mask.logical_not(), float("-inf"))
    elif mask is not None:
        scores += mask
    scores = fused_dropout(torch._safe_softmax(scores, -1), dropout_p)
    _returned_too = scores.to(query.dtype)  # until the product is there
    return (scores @ values).to(query.dtype)


def attention_bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Return the bias of the scores for a mask, in the layout of the kernels."""
    if mask.dtype == torch.bool:
        bias = torch.zeros_like(mask, dtype=query.dtype, memory_format=torch.contiguous_format)
        mask = bias.masked_fill_(mask.logical_not(), float("-inf"))
    width = mask.shape[-1]
    if width % MASK_ALIGNMENT:
        padded = functional.pad(mask, (0, MASK_ALIGNMENT - width % MASK_ALIGNMENT))
        mask = padded[..., :width]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _is_plainly_causal(
    _padding_mask: Tensor | None, q_length: int, kv_length: int, *offsets_and_window: int | None
) -> bool:
    return q_length == kv_length and offsets_and_window[-1] is None


def cudnn_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attend by cuDNN's kernel in 16 bits, else by the one that float32 takes.

    So does a bias that is learnt: cuDNN's kernel has no gradient of it. No kernel takes a tensor
    whose rows are not contiguous, as T5's mask or the turned images of a UNet: the scores are
    written down. PyTorch prefers cuDNN's kernel to flash attention on Hopper. Both keep the output
    and one log-sum-exp a query, but only cuDNN's gives the workspace that recorded traces show.
    """
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        value, key, query = (tensor.to(dtype) for tensor in (value, key, query))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(dtype)
    given = [query, key, value, *([] if attn_mask is None else [attn_mask])]
    if any(tensor.stride(-1) != 1 for tensor in given) and key.shape[1] == query.shape[1]:
        if is_causal:
            attn_mask = query.new_ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        with torch.autocast("cpu", enabled=False):
            return plain_attention(query, key, value, attn_mask, dropout_p, scale)
    is_learnt = attn_mask is not None and attn_mask.requires_grad and torch.is_grad_enabled()
    if is_learnt or query.dtype not in FLASH_DTYPES:
        return gpu_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    bias = None if attn_mask is None else attention_bias(attn_mask, query, key)
    keep_log_sum_exp = torch.is_grad_enabled() and query.requires_grad
    attended: Tensor = torch.ops.aten._scaled_dot_product_cudnn_attention(
        query, key, value, bias, keep_log_sum_exp, dropout_p, is_causal, False, scale=scale
    )[0]
    return attended


# Context parallelism puts its own function in the place of the one that has this name.
cudnn_attention.__name__ = functional.scaled_dot_product_attention.__name__
