"""What a network returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Output(NamedTuple):
    """Loss of a training step, or the outputs of a forward pass.

    Parameters
    ----------
    loss
        Scalar; none where the batch has no labels.
    outputs
        Whatever inference keeps; none while training.
    """

    loss: Tensor | None = None
    outputs: tuple[Tensor, ...] = ()
