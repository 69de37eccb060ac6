"""The results file: JSON lines, one for each plan that a planner found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planners.errors import InstanceError, errors_at
from planners.files.bounded_file import read_bounded, require_plain_file
from planners.files.file_limits import MAX_TEXT_BYTES
from planners.files.json_file import parse_json, read_json, refuse, require_fields, require_list
from planners.model.columns import INT64_MAX, IntColumn, frozen_column

SUFFIX = ".jsonl"
# Names of planners and finders get into the catalogue and its tables.
MAX_NAME_CHARACTERS = 80

_NEEDED = {"instance", "digest", "planner", "peak"}
_OPTIONAL = {"offsets", "plan", "lower_bound", "seconds", "finder"}


@dataclass(frozen=True, eq=False)
class FoundPlan:
    """A line of a results file: a plan, and perhaps a bound that its finder claims."""

    line: int
    instance: str
    digest: str
    # The planner, and its finder if the line names one.
    planner: str
    peak: int
    # Bytes, one a tensor.
    offsets: IntColumn
    # Bytes; 0 if no bound is claimed.
    lower_bound: int


def read_results(path: Path) -> list[FoundPlan]:
    """Read an untrusted results file, and the plan files beside it that it names.

    Errors leave out the path, as those of :func:`read_bounded` do.
    """
    found = []
    in_files: dict[str, IntColumn] = {}
    require_plain_file(path)
    for number, line in enumerate(read_bounded(path, MAX_TEXT_BYTES).split(b"\n"), 1):
        if line.strip():
            with errors_at(f"line {number}"):
                found.append(_found_plan(number, parse_json(line), path.parent, in_files))
    if not found:
        raise InstanceError("a result is needed, found none")
    return found


def _found_plan(line: int, fields: Any, folder: Path, in_files: dict[str, IntColumn]) -> FoundPlan:
    require_fields("", fields, _NEEDED, _OPTIONAL)
    for field in ("instance", "digest", "planner", "finder"):
        text = fields.get(field, "none" if field in _OPTIONAL else None)
        if type(text) is not str or not text.isprintable() or not text.strip():
            refuse(field, "a printable string", text)
        if len(text) > MAX_NAME_CHARACTERS:
            refuse(field, f"a string of at most {MAX_NAME_CHARACTERS} characters", text)
    for field in ("peak", "lower_bound"):
        number = 0 if field in _OPTIONAL and fields.get(field) is None else fields[field]
        if type(number) is not int or not 0 <= number <= INT64_MAX:
            refuse(field, "a whole number from 0 to 2**63 - 1", number)
    seconds = fields.get("seconds")
    if seconds is not None and (type(seconds) not in (int, float) or not 0 <= seconds < INT64_MAX):
        refuse("seconds", "a number of at least 0", seconds)
    finder = f", {fields['finder']}" if "finder" in fields else ""
    return FoundPlan(
        line,
        fields["instance"],
        fields["digest"],
        fields["planner"] + finder,
        fields["peak"],
        _offsets(fields, folder, in_files),
        fields.get("lower_bound") or 0,
    )


def _offsets(fields: dict[str, Any], folder: Path, in_files: dict[str, IntColumn]) -> IntColumn:
    """Return the offsets of a line; a file that many lines name is read once."""
    if ("offsets" in fields) == ("plan" in fields):
        raise InstanceError("one of the fields offsets and plan is needed, found both or none")
    if "offsets" in fields:
        return _column(fields["offsets"])
    name = fields["plan"]
    if type(name) is not str or Path(name).name != name:
        refuse("plan", "the name of a file in the folder of the results", name)
    if name not in in_files:
        with errors_at(name):
            require_plain_file(folder / name)
            content = read_json(folder / name)
        in_files[name] = _column(content.get("offsets") if isinstance(content, dict) else content)
    return in_files[name]


def _column(offsets: Any) -> IntColumn:
    require_list("offsets", offsets)
    return frozen_column("offsets", offsets)
