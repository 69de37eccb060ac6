"""Immutable columns: the checks and copies through which every array enters the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.text.plain_text import shown

INT64_MAX = int(np.iinfo(np.int64).max)

Entry = TypeVar("Entry", bound=np.generic)
IntColumn = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]


def frozen_column(
    field: str, values: Iterable[int] | NDArray[Any], entry: str = "tensor"
) -> IntColumn:
    """Return a read-only, contiguous int64 copy of one column."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InstanceError(f"field {field}: one dimension is needed, found {values.ndim}")
    listed = values if isinstance(values, np.ndarray) else listed_values(field, values)
    return _frozen_int64(listed, lambda index: f"field {field}, {entry} {index}")


def frozen_rows(field: str, rows: Iterable[Sequence[int]] | NDArray[Any], width: int) -> IntColumn:
    """Return a read-only, contiguous int64 copy of a table with a fixed number of columns."""
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InstanceError(f"field {field}: rows of {width} whole numbers are needed")
        entries: list[Any] | NDArray[Any] = rows.reshape(-1)
    else:
        listed = _listed_rows(field, rows, "entry")
        for index, row in enumerate(listed):
            if len(row) != width:
                raise InstanceError(
                    f"field {field}, entry {index}: {width} whole numbers are needed, "
                    f"found {len(row)}"
                )
        entries = list(chain.from_iterable(listed))
    column = _frozen_int64(entries, lambda index: f"field {field}, entry {index // width}")
    return column.reshape(-1, width)


def frozen_lists(
    field: str, rows: Iterable[Sequence[int] | IntColumn], entry: str
) -> tuple[IntColumn, IntColumn]:
    """Return lists of integers as compressed rows."""
    listed = _listed_rows(field, rows, entry)
    offsets = np.zeros(len(listed) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in listed], out=offsets[1:])
    frozen_offsets = read_only(offsets)

    def where(index: int) -> str:
        row = int(np.searchsorted(offsets, index, side="right")) - 1
        return f"field {field}, {entry} {row}"

    return frozen_offsets, _frozen_int64(list(chain.from_iterable(listed)), where)


def frozen_names(field: str, names: Iterable[str], entry: str) -> tuple[str, ...]:
    """Return a column of names that are safe to print in a one-line message."""
    listed = listed_values(field, names)
    # A long name may appear many times: each distinct name is checked once.
    known: set[str] = set()
    for index, name in enumerate(listed):
        if not isinstance(name, str) or not (name in known or name.isprintable()):
            raise InstanceError(
                f"field {field}, {entry} {index}: a string of printable characters is needed, "
                f"found {shown(name)}"
            )
        known.add(name)
    return tuple(listed)


def read_only(column: NDArray[Entry]) -> NDArray[Entry]:
    """Return a column that no code can make writable again, as a copy if necessary.

    Note: why not the flag alone. A caller that holds an array which owns its memory can reset the
    flag. The copy lies in a ``bytes`` object, which NumPy never writes to. It costs one pass over
    the memory.
    """
    owner: object = column
    while type(owner) is np.ndarray:
        owner = owner.base
    if isinstance(owner, bytes) and column.flags.c_contiguous:
        return column
    return np.ndarray(column.shape, column.dtype, buffer=column.tobytes())


def require_each(
    field: str,
    entry: str,
    right: BoolColumn,
    rule: str,
    found: NDArray[Any],
    show: Callable[[list[str]], str] = ", ".join,
    index: IntColumn | None = None,
) -> None:
    """Raise for the first entry that breaks a rule; ``show`` joins the numbers of a found row."""
    for wrong in np.flatnonzero(~right)[:1].tolist():
        at = wrong if index is None else index[wrong]
        numbers = [str(number) for number in np.atleast_1d(found[wrong]).tolist()]
        raise InstanceError(f"field {field}, {entry} {at}: {rule}, found {show(numbers)}")


def listed_values(field: str, values: Iterable[Any]) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise InstanceError(f"field {field}: a list is needed, found {shown(values)}") from None


def _listed_rows(field: str, rows: Iterable[Sequence[int] | IntColumn], entry: str) -> list[Any]:
    listed = listed_values(field, rows)
    for index, row in enumerate(listed):
        if not isinstance(row, (list, tuple)) and not (
            isinstance(row, np.ndarray) and row.ndim == 1
        ):
            raise InstanceError(
                f"field {field}, {entry} {index}: a list is needed, found {shown(row)}"
            )
    return listed


def _frozen_int64(values: list[Any] | NDArray[Any], where: Callable[[int], str]) -> IntColumn:
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
        fits = kind == "i" or (kind == "u" and (not values.size or values.max() <= INT64_MAX))
        if fits:
            return read_only(np.asarray(values, dtype=np.int64))
        values = values.tolist()
    if all(map(is_integer_type, set(map(type, values)))):
        try:
            column = np.array(values, dtype=np.int64)
        except OverflowError:
            pass
        else:
            return read_only(column)
    wrong = next(index for index, value in enumerate(values) if not is_whole(value, -INT64_MAX - 1))
    raise InstanceError(
        f"{where(wrong)}: a whole number that fits int64 is needed, found {shown(values[wrong])}"
    )


def is_integer_type(kind: type) -> bool:
    """Return True if values of a type are integers; booleans are not."""
    return issubclass(kind, (int, np.integer)) and not issubclass(kind, bool)


def is_whole(value: object, least: int = 0, most: int = INT64_MAX) -> TypeGuard[int]:
    """Return True if a value is an integer between two bounds."""
    return is_integer_type(type(value)) and least <= int(value) <= most  # type: ignore[call-overload]


def is_number(value: object, least: float) -> TypeGuard[float]:
    """Return True if a value is an integer or a float of at least a bound, and fits a float."""
    try:
        return (
            isinstance(value, (int, float, np.integer, np.floating))
            and not isinstance(value, bool)
            and float(value) >= least
        )
    except OverflowError:
        return False


def whole_bytes(field: str, value: object) -> int:
    """Return a number of bytes from outside as an integer of Python."""
    if not is_whole(value):
        raise InstanceError(
            f"field {field}: whole bytes from 0 to 2**63 - 1 are needed, found {shown(value)}"
        )
    return int(value)
