"""The output of a network: its loss, or its results."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Output(NamedTuple):
    """Loss of a training step, or the outputs of a forward pass."""

    # Scalar; none where the batch has no labels.
    loss: Tensor | None = None
    # Empty while training.
    outputs: tuple[Tensor, ...] = ()
