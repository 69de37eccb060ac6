"""What autograd does: where it adds up gradients, which on a GPU needs no new memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor


def in_engine() -> bool:
    """Return True during a backward pass, which on a GPU has a thread of its own."""
    return bool(torch._C._current_graph_task_id() != -1)


def engine_addition(func: Any, args: tuple[Any, ...], result: Tensor) -> tuple[int, int] | None:
    """Return the storages of the first summand and of the result, if autograd may be adding.

    It adds into the first summand if nothing else holds that one, so never into a view. It is
    autograd's own addition if the first summand ends before anything else happens.
    """
    if func is not torch.ops.aten.add.Tensor:
        return None
    summand, addend = args[:2]
    differentiating = in_engine() and not torch.is_grad_enabled()
    alike = (
        isinstance(addend, Tensor)
        and summand.shape == addend.shape == result.shape
        and summand.dtype == addend.dtype
    )
    # The engine gets a view together with the tensor that it is a view of.
    if not (differentiating and alike and _fills_its_range(summand)) or summand._is_view():
        return None
    return summand.untyped_storage()._cdata, result.untyped_storage()._cdata


def leaves_below(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors whose gradients a backward pass from some tensors makes."""
    nodes = [one.grad_fn for one in values if isinstance(one, Tensor)]
    seen: set[Any] = {None}
    while nodes:
        node: Any = nodes.pop()
        if node not in seen:
            seen.add(node)
            nodes += [below for below, _ in node.next_functions]
            if hasattr(node, "variable"):
                yield node.variable


def _fills_its_range(tensor: Tensor) -> bool:
    """Return True if a tensor's elements lie next to each other, in any order."""
    reached = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length != 1:
            if stride != reached:
                return False
            reached *= length
    return True
