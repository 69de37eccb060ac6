"""The CSV of MiniMalloc: a header, and a row for each tensor with its lifetime and its size."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.formats import Format
from planners.problem import Problem

COLUMNS = ("id", "lower", "upper", "size")
MAX_FILE_BYTES = 1 << 28
MAX_ROWS = 5_000_000
# Strings are turned into columns in pieces, so that they need not all be in memory at once.
ROWS_AT_ONCE = 1 << 16
NUMBER_CHARACTERS = frozenset("0123456789- ")


def read_minimalloc_csv(path: Path) -> Problem:
    """Read a MiniMalloc CSV with the columns ``id``, ``lower``, ``upper``, ``size``, in any order.

    Lifetimes are half-open. The capacity that some of the published files carry in their name
    (``A.1048576.csv``) is part of the problem's name and nothing else: who wants the question
    "does it fit" asks for it.

    Parameters
    ----------
    path
        The file, UTF-8.

    Returns
    -------
    Problem
        Lifetimes decide; ids become the tensors' names.

    Raises
    ------
    InstanceError
        The file cannot be read or breaks a rule; the message names file, line and column.

    References
    ----------
    https://github.com/google/minimalloc, section "Input format".
    """
    try:
        table = _read_table(_read_bounded(path))
        return Problem(
            table.size,
            table.lower,
            table.upper,
            tensor_name=table.names,
            name=path.stem,
            origin={"format": MINIMALLOC_CSV.name, "file": path.name},
        )
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None


def _recognises(path: Path, head: bytes) -> bool:
    if path.name.lower().endswith(".csv"):
        return True
    first = head.decode("utf-8-sig", "replace").partition("\n")[0]
    return set(COLUMNS) <= {cell.strip() for cell in first.split(",")}


MINIMALLOC_CSV = Format("minimalloc-csv", (".csv",), _recognises, read_minimalloc_csv)


@dataclass(frozen=True)
class _Table:
    names: list[str]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    size: NDArray[np.int64]


def _reader(text: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), strict=True)


def _where(text: str, row: int) -> str:
    """Say on which line a row is, counted from 0 behind the header; blank lines are no rows."""
    reader = _reader(text)
    next(islice(filter(None, reader), row + 1, None))
    return f"line {reader.line_num}"


def _read_table(text: str) -> _Table:
    reader = _reader(text)
    try:
        rows = filter(None, reader)
        place = _places_of_columns(next(rows, []))
        names, numbers = _read_columns(text, rows, place)
    except csv.Error as error:
        raise InstanceError(f"line {reader.line_num}: the text is no CSV: {error}") from None
    table = _Table(names, **numbers)
    _require_rules(text, table)
    return table


def _places_of_columns(header: list[str]) -> dict[str, int]:
    found = [name.strip() for name in header]
    for name in COLUMNS:
        if found.count(name) != 1:
            raise InstanceError(
                f"header: {','.join(COLUMNS)}, each once and in any order, is needed, "
                f"found {','.join(found)!r:.60}"
            )
    for name in found:
        if name not in COLUMNS:
            raise InstanceError(
                f"header: column {name!r:.40} is unknown; known columns are {','.join(COLUMNS)}"
            )
    return {name: place for place, name in enumerate(found)}


def _read_columns(
    text: str, rows: Iterator[list[str]], place: dict[str, int]
) -> tuple[list[str], dict[str, NDArray[np.int64]]]:
    names: list[str] = []
    pieces = {name: [np.empty(0, dtype=np.int64)] for name in COLUMNS[1:]}
    while piece := list(islice(rows, ROWS_AT_ONCE)):
        first = len(names)
        if first + len(piece) > MAX_ROWS:
            raise InstanceError(f"at most {MAX_ROWS} rows are read, found more")
        _require_width(text, first, piece, len(place))
        columns = list(zip(*piece, strict=True))
        names.extend(columns[place["id"]])
        for column, parts in pieces.items():
            parts.append(_whole_numbers(text, first, column, columns[place[column]]))
    return names, {column: np.concatenate(parts) for column, parts in pieces.items()}


def _require_width(text: str, first: int, piece: list[list[str]], width: int) -> None:
    if set(map(len, piece)) == {width}:
        return
    row = next(row for row, cells in enumerate(piece) if len(cells) != width)
    raise InstanceError(
        f"{_where(text, first + row)}: as many cells as the header has, {width}, are needed, "
        f"found {len(piece[row])}"
    )


def _whole_numbers(text: str, first: int, column: str, cells: tuple[str, ...]) -> NDArray[np.int64]:
    # int() takes more than a file should hold: underscores, foreign digits, tabs.
    if NUMBER_CHARACTERS.issuperset("".join(cells)):
        try:
            return np.array(list(map(int, cells)), dtype=np.int64)
        except (ValueError, OverflowError):
            pass
    row = next(row for row, cell in enumerate(cells) if not _is_whole_number(cell))
    raise InstanceError(
        f"{_where(text, first + row)}, column {column}: a whole number that fits int64 is "
        f"needed, found {cells[row]!r:.40}"
    )


def _is_whole_number(cell: str) -> bool:
    try:
        return NUMBER_CHARACTERS.issuperset(cell) and -(2**63) <= int(cell) < 2**63
    except ValueError:
        return False


def _require_rules(text: str, table: _Table) -> None:
    for row in np.flatnonzero(table.lower >= table.upper)[:1].tolist():
        raise InstanceError(
            f"{_where(text, row)}, column upper: above lower, {table.lower[row]}, is "
            f"needed (the end is exclusive), found {table.upper[row]}"
        )
    for row in np.flatnonzero(table.size < 0)[:1].tolist():
        raise InstanceError(
            f"{_where(text, row)}, column size: at least 0 is needed, found {table.size[row]}"
        )
    if len(set(table.names)) == len(table.names):
        return
    seen: set[str] = set()
    for row, name in enumerate(table.names):
        if name in seen:
            raise InstanceError(
                f"{_where(text, row)}, column id: each id once is needed, found {name!r:.40} again"
            )
        seen.add(name)


def _read_bounded(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InstanceError(f"the file cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InstanceError(f"at most {MAX_FILE_BYTES} bytes are read, found more")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InstanceError(f"the file is no UTF-8 text: byte {error.start}") from None
