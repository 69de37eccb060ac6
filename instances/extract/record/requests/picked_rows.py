"""Rows that a program picks by values: without values, all of them are taken.

Note: why all rows
------------------
Rationale. A loss over the labels that are not ignored picks rows by labels, and such a batch is
full in training. No other number of rows could need more memory.

Approach. Each operator whose result is as long as the picked values are many gets the longest
result. A mask that is an index becomes as many indices as it has elements. Sequences that a loss
aligns have equally many labels. An operator of another library, such as the suppression of boxes in
torchvision, says itself which size it does not know: that of its first argument is taken.

Limits. Operators whose result has no longest form, such as ``repeat_interleave``, are refused. The
indices that a kernel makes of a mask are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._library.fake_impl import FakeImplCtx

SAID = "the program picks rows by their values, which are not known: all rows are taken"
_MASKS = (torch.bool, torch.uint8)


def all_rows(name: str, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return the longest result that an operator can have; None if none is known."""
    if name == "nonzero.default":
        return _numbers(args[0], args[0].numel(), args[0].dim())
    if name == "masked_select.default":
        broadcast: Any = torch.broadcast_shapes
        return args[0].new_empty(broadcast(args[0].shape, args[1].shape).numel())
    if name == "index.Tensor":
        return func(args[0], _without_masks(args[1]))
    if name == "_unique2.default":
        values = args[0].flatten().clone()
        return values, _numbers(args[0], *args[0].shape), _numbers(args[0], values.numel())
    if name == "_ctc_loss.Tensor":
        steps, sequences, _ = args[0].shape
        states = 2 * (args[1].numel() // sequences) + 1
        return args[0].new_empty(sequences), args[0].new_empty(sequences, steps, states)
    if getattr(func, "namespace", "aten") != "aten":

        def longest(_: object, **limits: int | None) -> int:
            return limits.get("max") or len(args[0])

        with mock.patch.object(FakeImplCtx, "new_dynamic_size", longest):
            return func(*args)
    return None


def _without_masks(indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    found: list[Tensor | None] = []
    for one in indices:
        if one is not None and one.dtype in _MASKS:
            found += [_numbers(one, one.numel())] * one.dim()
        else:
            found.append(one)
    return found


def _numbers(like: Tensor, *shape: int) -> Tensor:
    numbers: Tensor = like.new_empty(shape, dtype=torch.int64)
    return numbers
