"""Arguments that are almost right: valid ones, changed in one place or in several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from random import Random
from typing import Any

import numpy as np

# Around what 8, 32 and 64 bits hold; no count of tensors that a machine could just about hold.
EXTREMES = (
    -(1 << 64), -(1 << 63), -(1 << 63) + 1, -(1 << 62), -(1 << 31) - 1, -(1 << 31), -2, -1, 0, 1,
    2, 3, 64, 1000, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40, (1 << 61) - 1, 1 << 61,
    1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 1 << 100,
)  # fmt: skip
NUMBERS = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e-300, 1e300)
STRANGERS: tuple[object, ...] = (None, "1", b"1", 1.5, [], {}, object(), np.int64(1), np.ones(3))
DTYPES = ("int8", "int32", "int64", "uint64", "float64", "bool", "object")


def changed(rng: Random, value: Any, others: Mapping[type, Sequence[object]]) -> Any:
    """Return a value of the same kind that may break a rule.

    Parameters
    ----------
    rng
        Source of every choice.
    value
        What is right.
    others
        Objects of the core, by their class, to be taken in place of one that fits.

    Returns
    -------
    object
        Often of the same type.
    """
    if rng.random() < 0.04:
        return rng.choice(STRANGERS)
    if isinstance(value, np.ndarray):
        return rng.choice(ARRAY_CHANGES)(rng, value)
    if isinstance(value, bool):
        return rng.choice((not value, 2, None))
    if isinstance(value, int):
        return rng.choice((rng.choice(EXTREMES), value + rng.choice((-1, 1))))
    if isinstance(value, float):
        return rng.choice(NUMBERS)
    if isinstance(value, bytes):
        return _changed_bytes(rng, value)
    if isinstance(value, list):
        return _changed_list(rng, value, others)
    if isinstance(value, Enum):
        return rng.choice((*type(value), value.value, -1, 99))
    found = others.get(type(value), ())
    if found and rng.random() < 0.9:
        return rng.choice(found)
    # An object that was never made.
    return type(value).__new__(type(value)) if type(value).__module__.endswith("_core") else None


def _changed_bytes(rng: Random, value: bytes) -> bytes:
    changed_bytes = bytearray(value)
    for _ in range(rng.randint(1, 3)):
        if not changed_bytes:
            break
        at = rng.randrange(len(changed_bytes))
        if rng.random() < 0.7:
            changed_bytes[at] = rng.randrange(256)
        else:
            del changed_bytes[at : at + rng.randint(1, 4)]
    return bytes(changed_bytes)


def _changed_list(
    rng: Random, value: list[Any], others: Mapping[type, Sequence[object]]
) -> list[Any]:
    listed = list(value)
    for _ in range(rng.randint(1, 2)):
        kind = rng.randrange(4)
        if kind == 0 or not listed:
            listed += listed or [None]
        elif kind == 1:
            listed.pop(rng.randrange(len(listed)))
        elif kind == 2:
            rng.shuffle(listed)
        else:
            at = rng.randrange(len(listed))
            listed[at] = changed(rng, listed[at], others)
    return listed


Array = np.ndarray[Any, Any]


def _with_extreme(rng: Random, array: Array) -> Array:
    copy = array.copy()
    if array.size and array.dtype.kind == "f":
        copy.flat[rng.randrange(copy.size)] = rng.choice(NUMBERS)
    if not array.size or array.dtype.kind != "i":
        return copy
    least, most = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
    for _ in range(rng.randint(1, 2)):
        near = int(copy.flat[rng.randrange(copy.size)]) + rng.choice((-1, 0, 1))
        drawn = rng.choice((near, rng.choice(EXTREMES), rng.randint(-2, copy.size + 1)))
        copy.flat[rng.randrange(copy.size)] = min(max(drawn, least), most)
    return copy


def _longer(rng: Random, array: Array) -> Array:
    extra = array[-1:] if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, *[extra] * rng.choice((1, 1, 2, 50))])


def _shorter(rng: Random, array: Array) -> Array:
    return array[: rng.randint(0, len(array))]


def _shuffled(rng: Random, array: Array) -> Array:
    return array[rng.sample(range(len(array)), len(array))]


def _doubled(rng: Random, array: Array) -> Array:
    if not len(array):
        return array
    copy = array.copy()
    copy[rng.randrange(len(copy))] = copy[rng.randrange(len(copy))]
    return copy


def _of_one_value(rng: Random, array: Array) -> Array:
    if array.dtype.kind != "i":
        return array
    info = np.iinfo(array.dtype)
    return np.full_like(array, min(max(rng.choice(EXTREMES), info.min), info.max))


def _of_other_type(rng: Random, array: Array) -> Array:
    return array.astype(rng.choice(DTYPES))


def _of_other_shape(rng: Random, array: Array) -> Array:
    rows = len(array)
    return rng.choice(
        (
            array.reshape(-1),
            array.reshape(1, -1),
            array.reshape(-1, 1),
            np.zeros((rows, 0), array.dtype),
            np.zeros((1 << 40, 0), array.dtype),
            np.zeros((0, 1 << 40), array.dtype),
            np.zeros((rows, 4), array.dtype),
            np.zeros((), array.dtype),
        )
    )


def _spread(_: Random, array: Array) -> Array:
    """Return the same values, not side by side."""
    return np.repeat(array, 2, axis=0)[::2]


def _broadcast(rng: Random, array: Array) -> Array:
    return (
        np.broadcast_to(array.reshape(-1)[:1].reshape(-1), (rng.choice((1, 3)),))
        if array.size
        else array
    )


def _read_only(_: Random, array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


ARRAY_CHANGES: tuple[Callable[[Random, Array], Array], ...] = (
    _with_extreme, _with_extreme, _with_extreme, _with_extreme, _longer, _shorter, _shuffled,
    _doubled, _doubled, _of_one_value, _of_other_type, _of_other_shape, _spread, _broadcast,
    _read_only,
)  # fmt: skip
