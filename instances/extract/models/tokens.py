"""Batches of token sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor


def require_positions(settings: StepSettings, positions: int) -> int:
    """Return the tokens in a sequence, which fit into the positions of a model."""
    if settings.seq is None or settings.seq > positions:
        raise InstanceError(
            f"setting seq: at most {positions} tokens, the positions of the model, "
            f"found {settings.seq}"
        )
    return settings.seq


def token_batch(settings: StepSettings, *fields: str) -> dict[str, Tensor]:
    """Return arguments of a model, each (batch, seq) int64; in training the first is the labels."""
    import torch

    shape = (settings.batch, settings.seq or 1)
    batch = {name: torch.zeros(shape, dtype=torch.int64) for name in fields}
    return {**batch, "labels": batch[fields[0]]} if settings.training else batch
