"""The CSV of MiniMalloc: a header, and a row for each tensor with its lifetime and its size."""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.formats.minimalloc_gaps import read_gaps
from instances.formats.minimalloc_header import Header, is_header, read_header
from planners.errors import InstanceError, errors_at
from planners.files.bounded_file import read_bounded_text
from planners.files.file_limits import MAX_TEXT_BYTES
from planners.files.formats import Format
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.model.rules import MAX_ALIGNMENT

MAX_ROWS = 5_000_000
# Strings are turned into columns in pieces, so that they need not all be in memory at once. Of more
# rows than Python's collector waits for, it visits all again and again: half of the time.
ROWS_AT_ONCE = 1 << 9
NUMBER_CHARACTERS = frozenset("0123456789- ")
NO_OFFSET = -1


def read_minimalloc_csv(path: Path) -> Problem:
    """Read a MiniMalloc CSV: ``id``, ``lower``, ``upper``, ``size`` and what else it may have.

    The columns come in any order. ``start`` and ``begin`` are other names of ``lower``, ``buffer``
    and ``buffer_id`` of ``id``. Lifetimes are half-open, except under the name ``end``, which is
    the last step of a lifetime and makes the gaps inclusive as well. ``alignment`` and ``gaps`` are
    taken, ``hint`` and ``kind`` ignored. A column ``offset`` is a plan and no part of the problem;
    :func:`read_minimalloc_plan` reads it. The capacity that some of the published files carry in
    their name (``A.1048576.csv``) is part of the problem's name and nothing else: who wants the
    question "does it fit" asks for it.

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
    https://github.com/google/minimalloc, ``src/converter.cc``.
    """
    return _read(path)[0]


def read_minimalloc_plan(path: Path) -> tuple[Problem, Plan | None]:
    """Read a MiniMalloc CSV together with the plan in its column ``offset``, which is not judged.

    The plan is None where the file has no such column, or nothing in it.
    """
    problem, offset = _read(path)
    placed = offset != NO_OFFSET
    if not placed.any():
        return problem, None
    for tensor in np.flatnonzero(~placed)[:1].tolist():
        raise InstanceError(
            f"{path}: column offset: an offset for every tensor is needed, found none for "
            f"{problem.describe(tensor)}"
        )
    return problem, Plan.of(problem, offset)


def _read(path: Path) -> tuple[Problem, NDArray[np.int64]]:
    with errors_at(path):
        table = _read_table(read_bounded_text(path, MAX_TEXT_BYTES))
        problem = Problem(
            table.size,
            table.lower,
            table.upper,
            alignment=table.alignment,
            gaps=table.gaps,
            tensor_name=table.names,
            name=path.stem,
            origin={"format": MINIMALLOC_CSV.name, "file": path.name},
        )
    return problem, table.offset


def _recognises(path: Path, head: bytes) -> bool:
    if path.name.lower().endswith(".csv"):
        return True
    lines = head.decode("utf-8-sig", "replace").splitlines()
    return any(is_header(line.split(",")) for line in lines[:1])


MINIMALLOC_CSV = Format("minimalloc-csv", (".csv",), _recognises, read_minimalloc_csv)


@dataclass(frozen=True)
class _Table:
    names: list[str]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    size: NDArray[np.int64]
    alignment: NDArray[np.int64] | None
    gaps: NDArray[np.int64]
    offset: NDArray[np.int64]


def _reader(text: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), strict=True)


def _rows(reader: Any) -> Iterator[list[str]]:
    """Leave out blank lines, and the comments that omnimalloc may put above the header."""
    above_header = True
    for row in reader:
        if not row or (above_header and row[0].startswith("#")):
            continue
        above_header = False
        yield row


def _where(text: str, row: int) -> str:
    """Say on which line a row is, counted from 0 behind the header; blank lines are no rows."""
    reader = _reader(text)
    next(islice(_rows(reader), row + 1, None))
    return f"line {reader.line_num}"


def _read_table(text: str) -> _Table:
    reader = _reader(text)
    try:
        rows = _rows(reader)
        header = read_header(next(rows, []))
        table = _read_columns(text, rows, header)
    except csv.Error as error:
        raise InstanceError(f"line {reader.line_num}: the text is no CSV: {error}") from None
    if not table.names:
        raise InstanceError("a row for each tensor is needed below the header, found none")
    _require_rules(text, header, table)
    return table


def _read_columns(text: str, rows: Iterator[list[str]], header: Header) -> _Table:
    names: list[str] = []
    # Rows of three numbers, end to end: as tuples they would take forty times their text.
    gaps = array("q")
    numbers = [name for name in ("lower", "upper", "size", "alignment") if name in header.place]
    pieces = {name: [np.empty(0, dtype=np.int64)] for name in (*numbers, "offset")}
    while piece := list(islice(rows, ROWS_AT_ONCE)):
        first = len(names)
        if first + len(piece) > MAX_ROWS:
            raise InstanceError(f"at most {MAX_ROWS} rows are read, found more")
        _require_width(text, first, piece, header.width)
        columns = list(zip(*piece, strict=True))
        names.extend(columns[header.place["id"]])
        for column in numbers:
            cells = columns[header.place[column]]
            pieces[column].append(_whole_numbers(text, first, header.spelling[column], cells))
        pieces["offset"].append(_offsets(text, first, header, columns, len(piece)))
        if "gaps" in header.place:
            gaps.extend(_gaps(text, first, columns[header.place["gaps"]], header))
    joined = {column: np.concatenate(parts) for column, parts in pieces.items()}
    if header.inclusive_end:
        joined["upper"] = _after(text, header, joined["upper"])
    return _Table(
        names,
        joined["lower"],
        joined["upper"],
        joined["size"],
        joined.get("alignment"),
        np.array(gaps, dtype=np.int64).reshape(-1, 3),
        joined["offset"],
    )


def _after(text: str, header: Header, last: NDArray[np.int64]) -> NDArray[np.int64]:
    for row in np.flatnonzero(last == np.iinfo(np.int64).max)[:1].tolist():
        raise InstanceError(
            f"{_where(text, row)}, column {header.spelling['upper']}: a last step below 2**63 - 1 "
            f"is needed, found {last[row]}"
        )
    return last + 1


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


def _offsets(
    text: str, first: int, header: Header, columns: list[tuple[str, ...]], rows: int
) -> NDArray[np.int64]:
    if "offset" not in header.place:
        return np.full(rows, NO_OFFSET, dtype=np.int64)
    cells = columns[header.place["offset"]]
    # A tensor that has not been placed has an empty cell.
    filled = tuple(cell if cell.strip() else str(NO_OFFSET) for cell in cells)
    offsets = _whole_numbers(text, first, header.spelling["offset"], filled)
    for row in np.flatnonzero(offsets < NO_OFFSET)[:1].tolist():
        raise InstanceError(
            f"{_where(text, first + row)}, column offset: at least 0, or -1 for none, is needed, "
            f"found {offsets[row]}"
        )
    return offsets


def _gaps(text: str, first: int, cells: tuple[str, ...], header: Header) -> Iterator[int]:
    for row, cell in enumerate(cells, start=first):
        try:
            for gap_first, gap_after in read_gaps(cell, inclusive_end=header.inclusive_end):
                yield from (row, gap_first, gap_after)
        except InstanceError as error:
            raise InstanceError(f"{_where(text, row)}, column gaps: {error}") from None


def _require_rules(text: str, header: Header, table: _Table) -> None:
    for row in np.flatnonzero(table.lower >= table.upper)[:1].tolist():
        below = "at least" if header.inclusive_end else "above"
        kind = "inclusive" if header.inclusive_end else "exclusive"
        raise InstanceError(
            f"{_where(text, row)}, column {header.spelling['upper']}: {below} "
            f"{header.spelling['lower']}, {table.lower[row]}, is needed (the end is {kind}), "
            f"found {table.upper[row] - header.inclusive_end}"
        )
    for row in np.flatnonzero(table.size < 0)[:1].tolist():
        raise InstanceError(
            f"{_where(text, row)}, column size: at least 0 is needed, found {table.size[row]}"
        )
    if table.alignment is not None:
        _require_alignments(text, table.alignment)
    _require_each_id_once(text, table.names)


def _require_alignments(text: str, alignment: NDArray[np.int64]) -> None:
    wrong = (alignment < 1) | (alignment > MAX_ALIGNMENT) | (alignment & (alignment - 1) != 0)
    for row in np.flatnonzero(wrong)[:1].tolist():
        raise InstanceError(
            f"{_where(text, row)}, column alignment: a power of two up to 2**40 is needed, "
            f"found {alignment[row]}"
        )


def _require_each_id_once(text: str, names: list[str]) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for row, name in enumerate(names):
        if name in seen:
            raise InstanceError(
                f"{_where(text, row)}, column id: each id once is needed, found {name!r:.40} again"
            )
        seen.add(name)
