"""Counts the floating-point operations and bytes of a call of an operator, from shapes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

from instances.extract.kernels.storages import Effort


def effort_of_call(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> Effort:
    """Return the effort of a call, whose tensors may be fake.

    Operations are counted by PyTorch's own formulas, which know matrix products, convolutions and
    attention; any other operator counts as none. A view has the bytes of what it shows, and a
    tensor that is changed in place is read and written.
    """
    formula = flop_registry.get(getattr(operator, "overloadpacket", None))
    counted = args
    if "scaled_dot_product" in str(operator):
        counted = _with_all_heads(args)
    flops = 0 if formula is None else formula(*counted, **kwargs, out_val=result)
    if operator is torch.ops.aten.convolution_backward.default:
        flops -= _counted_across_groups(*args, result)
    leaves = pytree.tree_leaves((args, kwargs, result))
    moved = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, Tensor))
    return Effort(int(flops), moved)


def _with_all_heads(args: Sequence[Any]) -> list[Any]:
    """Return the arguments of attention, with shapes in place of tensors that lack heads.

    Keys and values may have fewer heads than queries, each for several of theirs; the kernels
    compute every head, and PyTorch's formula asks for equal numbers.
    """
    heads = max(leaf.shape[1] for leaf in args if isinstance(leaf, Tensor) and leaf.dim() == 4)

    def with_all(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.dim() != 4:
            return leaf
        batch, _, *rest = leaf.shape
        return torch.Size((batch, heads, *rest))

    return [with_all(leaf) for leaf in args]


def _counted_across_groups(*args: Any) -> int:
    """Return the operations between channels of different groups, which no kernel computes.

    PyTorch's formula counts them in the gradient of the weight, and nowhere else.
    """
    *others, groups, output_mask, result = args
    formula = flop_registry[torch.ops.aten.convolution_backward]
    only_weight = [False, output_mask[1], False]
    of_weight = int(formula(*others, groups, only_weight, out_val=result))
    return of_weight - of_weight // int(groups)


def written_arguments(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of a call that its operator writes in place, each as it was given."""
    return [
        args[index] if index < len(args) else kwargs.get(argument.name)
        for index, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
