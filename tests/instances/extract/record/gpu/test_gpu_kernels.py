"""Which kernels stand in for those that a CPU would run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from planners.errors import InstanceError

pytestmark = pytest.mark.torch


def ops_traced(
    function: Callable[..., Tensor], batch: Callable[[], dict[str, Tensor]]
) -> list[str]:
    from instances.extract.record.graph.training_step import trace_forward_pass

    class Calls(torch.nn.Module):
        def forward(self, **inputs: Tensor) -> Tensor:
            return function(**inputs)

    return [op.op for op in trace_forward_pass(lambda: (Calls(), batch())).ops]


def attention(heads: int, groups: int, width: int, dtype: str, mask: bool) -> list[str]:
    def attend(**inputs: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(**inputs, enable_gqa=heads != groups)

    def batch() -> dict[str, Tensor]:
        options: dict[str, Any] = {"dtype": getattr(torch, dtype)}
        tensors = {
            "query": torch.zeros(2, heads, 8, width, **options),
            "key": torch.zeros(2, groups, 8, width, **options),
            "value": torch.zeros(2, groups, 8, width, **options),
        }
        if mask:
            tensors["attn_mask"] = torch.zeros(2, 1, 8, 8, dtype=torch.bool)
        return tensors

    return ops_traced(attend, batch)


@pytest.mark.parametrize(
    ("groups", "dtype", "mask", "kernel"),
    [
        (4, "bfloat16", False, "_scaled_dot_product_flash_attention"),
        (2, "bfloat16", False, "_scaled_dot_product_flash_attention"),
        (4, "bfloat16", True, "_scaled_dot_product_efficient_attention"),
        (4, "float32", False, "_scaled_dot_product_efficient_attention"),
        (4, "float32", True, "_scaled_dot_product_efficient_attention"),
        (2, "float32", False, "bmm"),
    ],
)
def test_attention_runs_the_kernel_of_a_gpu(
    groups: int, dtype: str, mask: bool, kernel: str
) -> None:
    ops = attention(4, groups, 16, dtype, mask)
    attends = {op for op in ops if op == "bmm" or op.startswith("_scaled_dot_product")}
    assert attends == {kernel}


def test_flash_attention_wants_heads_of_a_multiple_of_8_elements() -> None:
    with pytest.raises(InstanceError, match="a multiple of 8 elements, found 12"):
        attention(4, 4, 12, "bfloat16", mask=False)


def test_dropout_in_place_multiplies_a_mask_in() -> None:
    ops = ops_traced(
        lambda x: functional.dropout(x * 2, inplace=True), lambda: {"x": torch.zeros(4)}
    )
    assert ops == ["mul", "empty_like", "bernoulli_", "div_", "mul_"]


def test_a_table_outside_the_buffers_is_persistent() -> None:
    from instances.extract.record.graph.training_step import trace_forward_pass

    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.zeros(16)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.table

    trace = trace_forward_pass(lambda: (Table(), {"x": torch.zeros(16)}))
    assert [trace.size[storage] for storage in trace.persistent] == [64]
    assert [op.op for op in trace.ops] == ["add"]


def kept_by_attention(mask: Tensor) -> int:
    """Return the bytes that attention keeps in a trace, in 16 bits by autocast."""
    from instances.extract.record.gpu.gpu_kernels import cudnn_attention

    kept: list[int] = []
    query = torch.zeros(2, 4, 64, 8, requires_grad=True)
    with (
        torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: (kept.append(tensor.untyped_storage().nbytes()), tensor)[1],
            lambda tensor: tensor,
        ),
        torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True),
        torch.autocast("cpu", torch.bfloat16),
    ):
        cudnn_attention(query, query, query, mask, dropout_p=0.1)
    return max(kept)


def test_a_mask_whose_rows_are_not_contiguous_has_no_kernel() -> None:
    scores = 4 * (2 * 4 * 64 * 64)  # bytes in float32
    rows = torch.zeros(1, 4, 64, 64)
    assert kept_by_attention(rows) < scores
    assert kept_by_attention(rows.permute(0, 1, 3, 2)) == scores
