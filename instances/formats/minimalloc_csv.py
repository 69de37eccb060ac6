"""MiniMalloc CSV, read and written: a row for each tensor with its lifetime and its size."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from instances.formats.plan_target import refuse_target, require_valid_plan
from planners.errors import InstanceError, errors_at
from planners.files.bounded_file import read_bounded_text
from planners.files.file_limits import MAX_TEXT_BYTES
from planners.files.formats import Format
from planners.files.output_file import write_output
from planners.model.blocks import NOT_PINNED
from planners.model.columns import INT64_MAX
from planners.model.plain_form import is_plain
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.model.rules import MAX_ALIGNMENT
from planners.text.plain_text import csv_cell

MAX_ROWS = 5_000_000
# Rows that are turned into columns at once, so that not all strings are in memory together. With
# more rows Python's garbage collector visits all of them again and again, for half of the time.
ROWS_AT_ONCE = 1 << 9
NUMBER_CHARACTERS = frozenset("0123456789- ")


def read_minimalloc_csv(path: Path) -> Problem:
    """Read a MiniMalloc CSV: ``id``, ``lower``, ``upper``, ``size`` and optional columns.

    The columns come in any order. ``start`` and ``begin`` are other names of ``lower``, ``buffer``
    and ``buffer_id`` of ``id``. Lifetimes are half-open, except under the name ``end``, which is
    the last step of a lifetime and makes the gaps inclusive as well. ``alignment`` and ``gaps`` are
    taken, ``hint`` and ``kind`` ignored. A column ``offset`` with a number in every row is a plan
    and not a part of the problem; :func:`read_minimalloc_plan` reads it. Offsets on some rows
    alone pin those tensors; the other cells are empty or -1. Some published files have a capacity
    in their name (``A.1048576.csv``); the reader does not set it. Ids become the names of tensors.

    Source: https://github.com/google/minimalloc, ``src/converter.cc``.
    """
    return read_minimalloc_plan(path)[0]


def read_minimalloc_plan(path: Path) -> tuple[Problem, Plan | None]:
    """Read a MiniMalloc CSV together with the plan in its column ``offset``, which is not judged.

    The plan is None if some row has no offset.
    """
    with errors_at(path):
        table = _read_table(read_bounded_text(path, MAX_TEXT_BYTES))
        is_plan = bool((table.offset != NOT_PINNED).all())
        problem = Problem(
            table.size,
            table.lower,
            table.upper,
            alignment=table.alignment,
            pinned=None if is_plan else table.offset,
            gaps=table.gaps,
            tensor_name=table.names,
            name=path.stem,
            origin={"format": MINIMALLOC_CSV.name, "file": path.name},
        )
    return problem, Plan.of(problem, table.offset) if is_plan else None


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
    """Skip blank lines, and the comments that omnimalloc may put above the header."""
    above_header = True
    for row in reader:
        if not row or (above_header and row[0].startswith("#")):
            continue
        above_header = False
        yield row


def _where(text: str, row: int) -> str:
    """Return the line of a row, which is counted from 0 below the header without blank lines."""
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
    # Rows of three numbers, end to end: tuples would take forty times the bytes of the text.
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
        _refuse(text, row, header, "upper", "a last step below 2**63 - 1 is needed", last[row])
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
    # int() also reads underscores, foreign digits and tabs, which a file should not hold.
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
        return np.full(rows, NOT_PINNED, dtype=np.int64)
    cells = columns[header.place["offset"]]
    # A tensor without a place has an empty cell.
    filled = tuple(cell if cell.strip() else str(NOT_PINNED) for cell in cells)
    offsets = _whole_numbers(text, first, header.spelling["offset"], filled)
    for row in np.flatnonzero(offsets < NOT_PINNED)[:1].tolist():
        rule = "at least 0, or -1 for none, is needed"
        _refuse(text, first + row, header, "offset", rule, offsets[row])
    return offsets


def _gaps(text: str, first: int, cells: tuple[str, ...], header: Header) -> Iterator[int]:
    for row, cell in enumerate(cells, start=first):
        try:
            for gap_first, gap_after in read_gaps(cell, inclusive_end=header.inclusive_end):
                yield from (row, gap_first, gap_after)
        except InstanceError as error:
            raise InstanceError(f"{_where(text, row)}, column gaps: {error}") from None


def _require_rules(text: str, header: Header, table: _Table) -> None:
    lower, upper, name = table.lower, table.upper, header.spelling["lower"]
    for row in np.flatnonzero(lower >= upper)[:1].tolist():
        rule = f"at least {name}, {lower[row]}, is needed (the end is inclusive)"
        if not header.inclusive_end:
            rule = f"above {name}, {lower[row]}, is needed (the end is exclusive)"
        _refuse(text, row, header, "upper", rule, upper[row] - header.inclusive_end)
    for row in np.flatnonzero(table.size < 0)[:1].tolist():
        _refuse(text, row, header, "size", "at least 0 is needed", table.size[row])
    if (alignment := table.alignment) is not None:
        wrong = (alignment < 1) | (alignment > MAX_ALIGNMENT) | (alignment & (alignment - 1) != 0)
        for row in np.flatnonzero(wrong)[:1].tolist():
            rule = "a power of two up to 2**40 is needed"
            _refuse(text, row, header, "alignment", rule, alignment[row])
    _require_each_id_once(text, table.names)


def _refuse(text: str, row: int, header: Header, column: str, rule: str, found: object) -> NoReturn:
    spelled = header.spelling[column] if column in ("lower", "upper") else column
    raise InstanceError(f"{_where(text, row)}, column {spelled}: {rule}, found {found}")


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


REQUIRED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "gaps", "offset")
# Hints of MiniMalloc and kinds of tensors of omnimalloc, which constrain no plan.
IGNORED = ("hint", "kind")
INCLUSIVE_END = "end"
ALIASES = {
    "buffer": "id",
    "buffer_id": "id",
    "begin": "lower",
    "start": "lower",
    INCLUSIVE_END: "upper",
}
_CANONICAL = {name: name for name in (*REQUIRED, *OPTIONAL, *IGNORED)} | ALIASES


@dataclass(frozen=True)
class Header:
    """The columns of a table."""

    # Position of each column by its canonical name.
    place: dict[str, int]
    width: int
    # Each column as the file spells it, for messages.
    spelling: dict[str, str]
    # True if lifetimes and gaps include their last step, as with the name ``end``.
    inclusive_end: bool


def read_header(cells: list[str]) -> Header:
    """Read the header row."""
    found = [cell.strip() for cell in cells]
    canonical = [_CANONICAL.get(name.lower(), "") for name in found]
    shown = f"{','.join(found)!r:.60}"
    for name in REQUIRED:
        if canonical.count(name) != 1:
            raise InstanceError(
                f"header: {','.join(REQUIRED)}, each once and in any order, is needed, "
                f"found {shown}"
            )
    for name, spelled in zip(canonical, found, strict=True):
        if not name:
            known = ",".join(_CANONICAL)
            raise InstanceError(
                f"header: column {spelled!r:.40} is unknown; known columns are {known}"
            )
        if canonical.count(name) > 1:
            raise InstanceError(f"header: column {name} once at most is needed, found {shown}")
    return Header(
        place={name: place for place, name in enumerate(canonical)},
        width=len(found),
        spelling=dict(zip(canonical, found, strict=True)),
        inclusive_end=INCLUSIVE_END in {name.lower() for name in found},
    )


def is_header(cells: list[str]) -> bool:
    """Return True if a row names all required columns."""
    return set(REQUIRED) <= {_CANONICAL.get(cell.strip().lower(), "") for cell in cells}


_GAP = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


def read_gaps(cell: str, *, inclusive_end: bool) -> list[tuple[int, int]]:
    """Read the gaps of a tensor, ``FIRST-LAST`` apart by spaces, as half-open intervals."""
    gaps = []
    for gap in cell.split():
        steps, at, _window = gap.partition("@")
        if at:
            raise InstanceError(
                "a gap in which the tensor needs no memory at all, as in 5-9, is needed, found "
                f"{gap!r:.40}: in the steps of such a windowed gap a part of the tensor stays, "
                "which the model has no word for; split the tensor into a contiguous chain"
            )
        match = _GAP.fullmatch(steps)
        if match is None:
            raise InstanceError(
                f"gaps FIRST-LAST of whole numbers, as in '5-9 12-14', are needed, found "
                f"{gap!r:.40}"
            )
        first, after = int(match[1]), int(match[2]) + inclusive_end
        if max(first, after) > INT64_MAX:
            raise InstanceError(f"steps that fit int64 are needed, found {gap!r:.40}")
        gaps.append((first, after))
    return gaps


TARGET = "MiniMalloc CSV"


def write_minimalloc_csv(problem: Problem, path: Path, plan: Plan | None = None) -> None:
    """Write a problem, and a plan for it, as MiniMalloc CSV.

    The columns are ``id,lower,upper,size``, then ``alignment`` and ``gaps`` where the problem has
    them, then ``offset``. Ids are the tensors' names where those are unique and free of commas and
    quotes, which MiniMalloc does not know, else their numbers; see ``csv_cell``. The capacity,
    which MiniMalloc takes from its command line, phases, modules and origin are not written.
    """
    require_csv_holds(problem)
    if plan is not None:
        require_valid_plan(problem, plan)
    columns = {
        "id": _ids(problem),
        "lower": problem.start.tolist(),
        "upper": problem.end.tolist(),
        "size": problem.size.tolist(),
    }
    if (problem.alignment != 1).any():
        columns["alignment"] = problem.alignment.tolist()
    if len(problem.gaps):
        columns["gaps"] = _gap_cells(problem)
    if plan is not None:
        columns["offset"] = plan.offsets.tolist()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_output(path, text.getvalue().encode())


def require_csv_holds(problem: Problem) -> None:
    """Refuse a problem that MiniMalloc CSV cannot hold; raises ``InstanceError``."""
    if not problem.tensor_count:
        refuse_target(TARGET, "at least one tensor, below its header", "none")
    if problem.safety is Safety.GRAPH:
        refuse_target(
            TARGET,
            "lifetimes that decide which tensors may share bytes",
            f"a graph with {problem.stream_count} streams, in which lifetimes alone are wrong; a "
            ".json file holds it",
        )
    if problem.safety is Safety.PAIRS:
        refuse_target(
            TARGET,
            "lifetimes that decide which tensors may share bytes",
            "explicit unsafe pairs; a .json file holds them",
        )
    if problem.contiguous:
        refuse_target(
            TARGET, "tensors without order in memory", f"{len(problem.contiguous)} chains"
        )
    if len(problem.reuse_prices) or not is_plain(problem):
        refuse_target(
            TARGET,
            "one memory, and pairs of which lifetimes say all",
            "prices, memories or classes of tensors; a .json file holds them",
        )
    pins = int((problem.pinned != NOT_PINNED).sum())
    if pins:
        refuse_target(TARGET, "tensors that may lie anywhere", f"{pins} pinned")
    for tensor, first, _ in problem.gaps[problem.gaps[:, 1] < 0][:1].tolist():
        refuse_target(
            TARGET, "gaps from step 0 on", f"one of {problem.describe(tensor)} from step {first}"
        )


def _ids(problem: Problem) -> list[str]:
    names = [csv_cell(name) for name in problem.tensor_name or ()]
    if names and len(set(names)) == len(names) and not set('",') & set("".join(names)):
        return names
    return [str(tensor) for tensor in range(problem.tensor_count)]


def _gap_cells(problem: Problem) -> list[str]:
    cells: list[list[str]] = [[] for _ in range(problem.tensor_count)]
    order = np.lexsort((problem.gaps[:, 1], problem.gaps[:, 0]))
    for tensor, first, after in problem.gaps[order].tolist():
        cells[tensor].append(f"{first}-{after}")
    return [" ".join(gaps) for gaps in cells]
