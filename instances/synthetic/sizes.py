"""Sizes as allocators hand them out: multiples of 512 bytes."""

from __future__ import annotations

import random

MIB = 1 << 20
UNIT_BYTES = 512
"""What sizes are multiples of, as those of GPU allocators are."""


def random_size(rng: random.Random) -> int:
    """Return a size as tensors of a training step have them: most are small, some are huge."""
    return min(UNIT_BYTES * max(1, int(rng.lognormvariate(4, 3))), 64 * MIB)
