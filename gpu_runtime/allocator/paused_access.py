"""Finds operators that get a paused tensor, before their kernels run."""

from __future__ import annotations

import sys
from bisect import bisect_right
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from planners.errors import DeviceError
from planners.text.byte_units import exact_bytes


class PausedAccess(TorchDispatchMode):  # type: ignore[misc,no-untyped-call,unused-ignore]
    """Refuses operators of this thread that get a tensor in one of some blocks; views may.

    Parameters
    ----------
    blocks
        Pairs of address and size.
    """

    def __init__(self, blocks: list[tuple[int, int]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self._blocks = sorted(blocks)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator, unless one of its tensors is paused."""
        for value in [] if func.is_view else tree_leaves((args, kwargs)):
            if type(value) in (torch.Tensor, torch.nn.Parameter) and not value.is_meta:
                self._require_memory(func, value)
        return func(*args, **(kwargs or {}))

    def _require_memory(self, func: Any, tensor: torch.Tensor) -> None:
        at = tensor.data_ptr()
        begin, size = self._blocks[max(0, bisect_right(self._blocks, (at, sys.maxsize)) - 1)]
        if begin <= at < begin + size:
            raise DeviceError(
                f"{func}: the tensor of shape {list(tensor.shape)} is paused, in the block of "
                f"{exact_bytes(size)} bytes at {begin:#x}; call resume() first"
            )
