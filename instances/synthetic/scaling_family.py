"""A family from a hundred tensors to a million with the shape of training and a known optimum.

Note [Scaling family]
~~~~~~~~~~~~~~~~~~~~~
*The instance.* Weights live throughout the run, at the bottom. Above them, the forward sweep of a
microbatch stacks activations layer by layer, and the backward sweep frees them, the last first. The
space above the stack is cut into lanes. During each layer, temporaries follow each other in a lane.
A temporary fills its lane in some of the layers, and a part of its lane in the others. The shares
of lanes and times repeat from layer to layer, with noise.

*Why the optimum is known.* This construction is a plan of the given height. In the deepest layer of
the first forward sweep every temporary fills its lane, so each step of the layer needs the whole
height.

*Limits.* The instance is easier than it looks, because most layers leave memory free. The few full
layers allow only plans that keep weights and activations in one piece.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.synthetic.family import UNIT_BYTES, Drawing, Packing, family
from planners.model.columns import IntColumn

UNITS = 1 << 23
LANES = 4
SLOTS = 6
STEPS_A_LAYER = 64
TENSORS_A_LAYER = 1 + 2 * LANES * SLOTS
LEAST_LAYERS = 2
LEAST_TENSORS = LEAST_LAYERS * TENSORS_A_LAYER + 1

# Share of layers that are as full as the deepest one, and the least fill of the others.
FULL_LAYERS = 0.25
LEAST_FULL = 0.5
NOISE = 0.3


@family(seed=0, tensors=LEAST_TENSORS)
def scaling_family(tensors: int, *, seed: int = 0) -> Drawing:
    """Return a training-like run of any size with a known optimum; see Note [Scaling family].

    Parameters
    ----------
    tensors
        Number of tensors, 99 to 10,000,000.

    Returns
    -------
    Problem
        Its optimum is 4 GiB, and so is its lifetime bound.
    """
    rng = np.random.default_rng(seed)
    layers = max(LEAST_LAYERS, round(2 * (tensors / TENSORS_A_LAYER) ** (1 / 3)))
    batches = max(1, (tensors - 1) // (layers * TENSORS_A_LAYER))
    if batches * layers * TENSORS_A_LAYER >= tensors:
        layers, batches = LEAST_LAYERS, 1
    weights = tensors - batches * layers * TENSORS_A_LAYER
    pile = _split(np.array([UNITS // 2]), rng.uniform(0.2, 1, (1, layers)))[0]
    floor = UNITS // 4 + np.cumsum(pile)
    parts = [
        _weights(weights, 2 * layers * batches * STEPS_A_LAYER, rng),
        _activations(pile, floor, batches),
        _temporaries(floor, batches, rng),
    ]
    rows = np.concatenate(parts)
    rows = rows[rng.permutation(len(rows))]
    start, end, bottom, top = rows[np.argsort(rows[:, 0], kind="stable")].T
    packing = Packing((top - bottom) * UNIT_BYTES, start, end, bottom * UNIT_BYTES)
    return packing.drawing(
        f"scaling-{tensors}", "drawn as a plan of this height; the deepest layer needs all of it"
    )


def _weights(count: int, steps: int, rng: np.random.Generator) -> IntColumn:
    """Return rows of start, end, bottom and top: tensors that live throughout."""
    size = _split(np.array([UNITS // 4]), rng.lognormal(0, 1.5, (1, count)))[0]
    top = np.cumsum(size)
    return np.column_stack([np.zeros_like(top), np.full_like(top, steps), top - size, top])


def _activations(pile: IntColumn, floor: IntColumn, batches: int) -> IntColumn:
    """Return such rows for tensors that live from a layer to its mirror, in each microbatch."""
    layers = len(pile)
    layer = np.arange(layers)
    start = layer * STEPS_A_LAYER
    end = (2 * layers - layer) * STEPS_A_LAYER
    rows = np.column_stack([start, end, floor - pile, floor])
    shift = np.arange(batches)[:, None, None] * (2 * layers * STEPS_A_LAYER)
    moved = np.tile(rows, (batches, 1, 1))
    moved[:, :, :2] += shift
    return moved.reshape(-1, 4)


def _temporaries(floor: IntColumn, batches: int, rng: np.random.Generator) -> IntColumn:
    """Return such rows for temporaries of each layer, above the pile of activations."""
    layers = len(floor)
    floor_at = np.tile(np.concatenate([floor, floor[::-1]]), batches)
    moments = len(floor_at)
    lane_shares = rng.uniform(0.2, 1, LANES) * _noise(rng, (moments, LANES))
    lane = _split(UNITS - floor_at, lane_shares)
    slot_shares = rng.uniform(0.2, 1, (LANES, SLOTS)) * _noise(rng, (moments, LANES, SLOTS))
    lasts = _split(
        np.full(moments * LANES, STEPS_A_LAYER), slot_shares.reshape(moments * LANES, SLOTS)
    ).reshape(moments, LANES, SLOTS)
    full = rng.random(moments) < FULL_LAYERS
    full[layers - 1] = True
    fill = np.where(full[:, None, None], 1, rng.uniform(LEAST_FULL, 1, (moments, LANES, SLOTS)))
    size = np.maximum(1, np.floor(lane[:, :, None] * fill).astype(np.int64))
    end = np.cumsum(lasts, axis=2) + (np.arange(moments) * STEPS_A_LAYER)[:, None, None]
    bottom = (floor_at[:, None] + np.cumsum(lane, axis=1) - lane)[:, :, None]
    rows = np.stack(np.broadcast_arrays(end - lasts, end, bottom, bottom + size), axis=-1)
    return rows.reshape(-1, 4)


def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rng.uniform(1 - NOISE, 1 + NOISE, shape)


def _split(total: IntColumn, shares: NDArray[np.float64]) -> IntColumn:
    """Split whole numbers by shares into whole parts of at least 1."""
    parts = shares.shape[1]
    reached = np.cumsum(shares, axis=1) / shares.sum(axis=1, keepdims=True)
    # Rounding must not let the last part miss the total.
    reached[:, -1] = 1
    edges = np.floor(reached * (total - parts)[:, None]).astype(np.int64)
    split: IntColumn = np.diff(edges, axis=1, prepend=0) + 1
    return split
