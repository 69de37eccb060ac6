"""Lifetimes and sizes without any structure."""

from __future__ import annotations

import random
from functools import partial

from instances.synthetic.family import Drawing, family
from instances.synthetic.sizes import random_size
from planners.model.problem import Problem


@family(tensors=0)
def random_lifetimes(tensors: int, *, seed: int = 0) -> Drawing:
    """Return lifetimes and sizes without structure: hard on anything that merges what touches.

    Parameters
    ----------
    tensors
        Number of tensors.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        Starts are uniform over ``tensors`` steps; one lifetime in ten is long.
    """
    rng = random.Random(seed)
    start = [rng.randrange(tensors) for _ in range(tensors)]
    longest = [tensors if rng.random() < 0.1 else 64 for _ in range(tensors)]
    make = partial(
        Problem,
        [random_size(rng) for _ in range(tensors)],
        start,
        [begin + 1 + rng.randrange(most) for begin, most in zip(start, longest, strict=True)],
    )
    return Drawing(make, f"random-{tensors}")
