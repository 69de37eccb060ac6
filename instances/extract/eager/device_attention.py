"""Attention as a Hopper GPU runs it: cuDNN's kernel for 16-bit floats."""

from __future__ import annotations

import torch
from torch import Tensor

from instances.extract.tracing.gpu_kernels import FLASH_DTYPES, attention_bias, gpu_attention


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

    PyTorch prefers cuDNN's kernel to flash attention on Hopper. Both keep the output and one
    log-sum-exp a query, but only cuDNN's gives the workspace that recorded traces show.
    """
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        value, key, query = (tensor.to(dtype) for tensor in (value, key, query))
    if query.dtype not in FLASH_DTYPES:
        return gpu_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    bias = None if attn_mask is None else attention_bias(attn_mask, query, key)
    keep_log_sum_exp = torch.is_grad_enabled() and query.requires_grad
    attended: Tensor = torch.ops.aten._scaled_dot_product_cudnn_attention(
        query, key, value, bias, keep_log_sum_exp, dropout_p, is_causal, False, scale=scale
    )[0]
    return attended
