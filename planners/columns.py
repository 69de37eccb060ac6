"""Immutable int64 columns: how every array of the model is taken in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError

INT64_MAX = int(np.iinfo(np.int64).max)

IntColumn = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]


def frozen_column(field: str, values: Iterable[int] | NDArray[Any]) -> IntColumn:
    """Return a read-only, contiguous int64 copy of one column.

    Parameters
    ----------
    field
        Name for the error message.
    values
        Whole numbers, one an entry; an integer array of any width is accepted.

    Returns
    -------
    numpy.ndarray
        int64, one dimension, not writable.

    Raises
    ------
    InstanceError
        An entry is no whole number, or does not fit int64.
    """
    column = _as_int64(field, values if isinstance(values, np.ndarray) else list(values))
    if column.ndim != 1:
        raise InstanceError(f"field {field}: one dimension is needed, found {column.ndim}")
    column.setflags(write=False)
    return column


def frozen_rows(field: str, rows: Iterable[Sequence[int]] | NDArray[Any], width: int) -> IntColumn:
    """Return a read-only, contiguous int64 copy of a table with a fixed number of columns.

    Parameters
    ----------
    field
        Name for the error message.
    rows
        Rows of ``width`` whole numbers each; may be empty.
    width
        Number of columns.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows, width)``, not writable.

    Raises
    ------
    InstanceError
        A row has another width, or an entry is no whole number that fits int64.
    """
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InstanceError(f"field {field}: rows of {width} whole numbers are needed")
        table = _as_int64(field, rows)
    else:
        table = _as_int64(field, flatten(field, rows, width)).reshape(-1, width)
    table.setflags(write=False)
    return table


def flatten(field: str, rows: Iterable[Sequence[int]], width: int | None = None) -> list[int]:
    """Return the entries of a list of lists, one after the other.

    Parameters
    ----------
    field
        Name for the error message.
    rows
        Lists or tuples.
    width
        Length that every row must have; any length when None.

    Returns
    -------
    list
        The entries, not checked.

    Raises
    ------
    InstanceError
        A row is no list, or has another length.
    """
    listed = list(rows)
    for index, row in enumerate(listed):
        if not isinstance(row, (list, tuple, np.ndarray)):
            raise InstanceError(f"field {field}, entry {index}: a list is needed, found {row!r}")
        if width is not None and len(row) != width:
            raise InstanceError(
                f"field {field}, entry {index}: {width} whole numbers are needed, found {len(row)}"
            )
    return list(chain.from_iterable(listed))


def _as_int64(field: str, values: list[Any] | NDArray[Any]) -> IntColumn:
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "i" or (
            values.dtype.kind == "u" and (not values.size or values.max() <= INT64_MAX)
        ):
            return np.array(values, dtype=np.int64, copy=True, order="C")
        return _as_int64(field, values.tolist())
    if not all(map(_is_integer_type, set(map(type, values)))):
        raise InstanceError(_what_is_wrong(field, values))
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        raise InstanceError(_what_is_wrong(field, values)) from None


def _is_integer_type(kind: type) -> bool:
    return issubclass(kind, (int, np.integer)) and not issubclass(kind, bool)


def _what_is_wrong(field: str, values: list[Any]) -> str:
    for index, value in enumerate(values):
        if not _is_integer_type(type(value)) or not -INT64_MAX - 1 <= value <= INT64_MAX:
            return (
                f"field {field}, entry {index}: a whole number that fits int64 is needed, "
                f"found {value!r:.40}"
            )
    return f"field {field}: whole numbers that fit int64 are needed"
