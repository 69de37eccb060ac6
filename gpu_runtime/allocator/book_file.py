"""The file of a book of plans: versioned JSON, checked by the referee when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpu_runtime._core import BETWEEN_STEPS, FIRST_ROLE, MOST_KINDS
from gpu_runtime.allocator.book import Book
from gpu_runtime.allocator.book_problem import BookProblem, book_problem
from gpu_runtime.allocator.step_kind import StepKind
from planners.errors import InstanceError, InvalidPlanError, errors_at
from planners.files.json_file import read_json, refuse, require_fields, require_list, write_fields
from planners.model.bounds import bounds_of
from planners.model.columns import IntColumn
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.referee.judge import judge

FORMAT = "gapless-step-plans"
VERSION = 1

# The most steps of a kind, requests, bytes and streams that a file may have; no real run has more.
MOST_SEEN = 1 << 40
MOST_SLOTS = 1 << 20
MOST_BYTES = 1 << 48
MOST_STREAMS = 256
MOST_NAME = 200

_FIELDS = {"format", "version", "origin", "names", "least_peak", "arena_bytes", "kinds", "offsets"}
_COLUMNS = {"stream", "least", "most", "end", "short_end", "was_freed", "renewed"}


@dataclass(frozen=True)
class SavedBook:
    """The content of a file: a book with a valid plan, and the names of labels."""

    book: Book
    names: Mapping[int, str]


def write_book(
    book: Book, names: Mapping[int, str], origin: Mapping[str, str | int], path: Path
) -> None:
    """Write a book; streams are numbered in the order of their first requests.

    Raises
    ------
    GaplessError
        The file cannot be written; an earlier file of this name stays.
    """
    kinds = with_roles(book.problem.kinds)
    place = {kind.number: index for index, kind in enumerate(kinds)}
    bounds = {"lower_bound": book.lower_bound, "certificate": book.result.certificate}
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "origin": {**origin, **bounds},
        "names": {str(label): name for label, name in names.items() if label > 0},
        "least_peak": book.problem.least_peak,
        "arena_bytes": book.arena_bytes,
        "kinds": [_kind_to_fields(kind, place) for kind in kinds],
        "offsets": book.plan.offsets.tolist(),
    }
    write_fields(fields, path)


def read_book(path: Path) -> SavedBook:
    """Read an untrusted file and judge the plan in it.

    Raises
    ------
    InstanceError
        The file cannot be read or breaks a rule; the message names the field.
    InvalidPlanError
        Two requests that are in use at one time share bytes.
    """
    with errors_at(path):
        fields = read_json(path)
        require_fields("", fields, _FIELDS, set())
        for field, value in (("format", FORMAT), ("version", VERSION)):
            if type(fields[field]) is not type(value) or fields[field] != value:
                refuse(field, repr(value), fields[field])
        kinds = _kinds_from_fields(fields["kinds"])
        least_peak = _number("least_peak", fields["least_peak"], 0, MOST_BYTES)
        problem = book_problem(kinds, least_peak)
        return SavedBook(_judged(problem, fields), _names_from_fields(fields["names"]))


def with_roles(kinds: Sequence[StepKind]) -> list[StepKind]:
    """Return the kinds with their streams, except the default one, numbered in order."""
    role: dict[int, int] = {0: 0}
    for kind in kinds:
        streams, first = np.unique(kind.stream, return_index=True)
        for stream in streams[np.argsort(first)].tolist():
            role.setdefault(stream, FIRST_ROLE + len(role))
    named = []
    for kind in kinds:
        streams, place = np.unique(kind.stream, return_inverse=True)
        names = np.array([role[stream] for stream in streams.tolist()], dtype=np.int64)
        named.append(kind.on_streams(names[place]))
    return named


def _kind_to_fields(kind: StepKind, place: Mapping[int, int]) -> dict[str, Any]:
    role = np.where(kind.stream >= FIRST_ROLE, kind.stream - FIRST_ROLE, 0)
    return {
        "label": kind.label,
        "seen": kind.seen,
        "stream": role.tolist(),
        "least": kind.least.tolist(),
        "most": kind.most.tolist(),
        "end": kind.end.tolist(),
        "short_end": kind.short_end.tolist(),
        "was_freed": kind.was_freed.astype(int).tolist(),
        "renewed": kind.renewed.astype(int).tolist(),
        "later": {
            str(place[number]): ends.tolist()
            for number, ends in kind.later.items()
            if number in place
        },
    }


def _kinds_from_fields(rows: Any) -> list[StepKind]:
    require_list("kinds", rows)
    if len(rows) > 2 * MOST_KINDS:
        refuse("kinds", f"a list of at most {2 * MOST_KINDS}", len(rows))
    kinds = [
        _kind_from_fields(f"kinds, kind {index}, ", row, index) for index, row in enumerate(rows)
    ]
    for index, row in enumerate(rows):
        where = f"kinds, kind {index}, later"
        if not isinstance(row["later"], dict):
            refuse(where, "an object", row["later"])
        for key, ends in row["later"].items():
            if key not in map(str, range(len(kinds))):
                refuse(where, f"numbers of kinds below {len(kinds)}", key)
            other = kinds[int(key)]
            kinds[index].later[other.number] = _column(
                f"{where}, {key}", ends, kinds[index].slot_count, 0, other.slot_count
            )
    return kinds


def _kind_from_fields(where: str, row: Any, number: int) -> StepKind:
    require_fields(where, row, {"label", "seen", "later", *_COLUMNS}, set())
    require_list(f"{where}stream", row["stream"])
    count = len(row["stream"])
    if not 0 < count <= MOST_SLOTS:
        refuse(f"{where}stream", f"a list of 1 to {MOST_SLOTS}", count)

    def column(name: str, least: int, most: int) -> IntColumn:
        return _column(where + name, row[name], count, least, most)

    role = column("stream", 0, MOST_STREAMS - 1)
    least, most = column("least", 1, MOST_BYTES), column("most", 1, MOST_BYTES)
    for slot in np.flatnonzero(least > most)[:1].tolist():
        refuse(f"{where}least, request {slot}", f"at most {most[slot]}, its most,", least[slot])
    end = column("end", 1, count)
    for slot in np.flatnonzero(end <= np.arange(count))[:1].tolist():
        refuse(f"{where}end, request {slot}", "a later one", end[slot])
    short_end = column("short_end", 0, count)
    for slot in np.flatnonzero((short_end > 0) & (short_end <= np.arange(count)))[:1].tolist():
        refuse(f"{where}short_end, request {slot}", "0 or a later one", short_end[slot])
    return StepKind(
        number,
        _number(f"{where}label", row["label"], BETWEEN_STEPS, (1 << 31) - 1),
        np.where(role > 0, role + FIRST_ROLE, 0),
        least,
        most,
        most,
        end,
        short_end,
        column("was_freed", 0, 1).astype(np.bool_),
        column("renewed", 0, 1).astype(np.bool_),
        seen=_number(f"{where}seen", row["seen"], 1, MOST_SEEN),
    )


def _judged(problem: BookProblem, fields: Mapping[str, Any]) -> Book:
    count = problem.problem.tensor_count
    offsets = _column("offsets", fields["offsets"], count, 0, MOST_BYTES)
    peak = int((offsets + problem.problem.size).max(initial=0))
    if fields["arena_bytes"] != peak:
        refuse("arena_bytes", f"{peak}, where the last request ends,", fields["arena_bytes"])
    found = Findings(plan=Plan(offsets, peak))
    result = judge(problem.problem, found, bounds_of(problem.problem))
    if not result.valid:
        raise InvalidPlanError(f"field offsets: {result.reason}")
    return Book(problem, result)


def _names_from_fields(names: Any) -> dict[int, str]:
    if not isinstance(names, dict):
        refuse("names", "an object", names)
    found: dict[int, str] = {}
    for label, name in names.items():
        if not (label.isascii() and label.isdecimal() and 0 < len(label) < 10 and int(label) > 0):
            refuse("names", "labels from 1 on", label)
        if not isinstance(name, str) or len(name) > MOST_NAME or not name.isprintable():
            refuse(f"names, {label}", f"at most {MOST_NAME} printable characters", name)
        found[int(label)] = name
    return found


def _column(field: str, values: Any, count: int, least: int, most: int) -> IntColumn:
    require_list(field, values)
    if len(values) != count:
        raise InstanceError(f"field {field}: {count} entries are needed, found {len(values)}")
    for index, value in enumerate(values):
        if type(value) is not int or not least <= value <= most:
            refuse(f"{field}, entry {index}", f"a whole number from {least} to {most}", value)
    return np.array(values, dtype=np.int64)


def _number(field: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        refuse(field, f"a whole number from {least} to {most}", value)
    return value
