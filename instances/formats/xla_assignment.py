"""XLA's dumps of its buffer assignment: the values in its temporary memory, and their offsets.

::

    allocation 21: size 8192, preallocated-temp:
     value: <84 add.1 @0> (size=2048,offset=6144): f32[16,32]{1,0}

A second file, which ends in ``live-range.txt``, has a line for each value with its first and its
last instruction: ``    add.1{}:11-14``. One file with both parts is read as well.

Note: values that share bytes
----------------------
Rationale. An instruction may write its result over an operand that it reads last, and the state of
a loop stays in place. Neither file names such values. As separate tensors, results in place would
take bytes that XLA does not need, and the parts of a loop's state could get different offsets.

Approach. XLA's own offsets decide. Two values of one size at one offset are one storage if one
begins when the other ends. If values of one size at one offset include a state of a loop
(``phi``), all of them are one storage, with gaps in which none of them lives. So XLA's plan is a
plan of the problem, and all sharing that XLA found is possible.

Limits. A result that XLA could have written in place, but did not, is a storage of its own. A value
that happens to have the size and the offset of a loop's state shares the storage of that state.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from instances.formats.model_problem import warn_of_left_out
from planners.errors import InstanceError, errors_at
from planners.files.bounded_file import read_bounded_text
from planners.files.file_limits import MAX_TEXT_BYTES
from planners.files.formats import Format
from planners.model.columns import INT64_MAX
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.text.plain_text import shown

FIRST_LINE = "BufferAssignment:"
ENDING, LIVE_RANGE_ENDING = "buffer-assignment.txt", "live-range.txt"
LIVE_RANGE_HEAD, LIVE_RANGES = "HloLiveRange", "  BufferLiveRange:"
TEMPORARY, LIVE_OUT = "preallocated-temp", "maybe-live-out"
# Larger than any alignment of XLA.
MOST_ALIGNMENT = 256

_ALLOCATION = re.compile(
    r"allocation \d{1,9}: (?:0x[0-9a-f]{1,16}, )?size (\d{1,19})(?:, (.*))?:", re.ASCII
)
_VALUE = re.compile(
    r" value: <\d{1,19} (\S+?)(\{[\d,]*\})?( \(phi\))? @-?\d{1,19}> "
    r"\(size=(\d{1,19}),offset=(\d{1,19})\): .*",
    re.ASCII,
)
_RANGE = re.compile(r"    (\S+?\{[\d,]*\}):(\d{1,19})-(\d{1,19})", re.ASCII)


def read_xla_assignment(path: Path) -> Problem:
    """Read the values that XLA places in its temporary memory, as a problem of lifetimes.

    Several temporary allocations of the device's memory are planned as one; a warning names those
    of other memories, which are left out. Parameters, constants and results have memory of their
    own. The problem's origin has their bytes, and those of XLA's own plan as ``xla_bytes``. Values
    that share bytes are one tensor. All tensors have one alignment, the largest that all of XLA's
    offsets have. A step is an instruction in XLA's order. `path` ends in
    ``buffer-assignment.txt``, with the live ranges in a file beside it, or is one file with both.
    XLA writes these files under the options ``--xla_dump_to`` and ``--xla_dump_hlo_as_text``.

    Source: https://github.com/openxla/xla, ``xla/service/buffer_assignment.cc``.
    """
    return read_xla_plan(path)[0]


def read_xla_plan(path: Path) -> tuple[Problem, Plan]:
    """Read a problem together with XLA's own plan, which is not judged."""
    with errors_at(path):
        text = read_bounded_text(path, MAX_TEXT_BYTES)
        allocations = list(_allocations(text))
        temporary = _one_memory(path, [its for its in allocations if TEMPORARY in its.kinds])
        ranges = _live_ranges(text)
    if ranges is None:
        ranges = _live_ranges_beside(path)
    with errors_at(path):
        alignment = _alignment([value.offset for its in temporary for value in its.values])
        storages = _storages(temporary, alignment, ranges)
        problem = Problem(
            [storage.size for storage in storages],
            [storage.start for storage in storages],
            [storage.end for storage in storages],
            alignment=[alignment] * len(storages),
            gaps=[(tensor, *gap) for tensor, its in enumerate(storages) for gap in its.gaps],
            tensor_name=[storage.name for storage in storages],
            name=path.name.removesuffix(ENDING).removesuffix(".txt").rstrip(".-") or path.stem,
            origin={
                "format": XLA_ASSIGNMENT.name,
                "file": path.name,
                "xla_bytes": sum(its.size for its in temporary),
                "persistent_bytes": sum(its.size for its in allocations if its.is_persistent),
                "output_bytes": sum(its.size for its in allocations if its.is_output),
            },
        )
        return problem, Plan.of(problem, [storage.offset for storage in storages])


def _one_memory(path: Path, temporary: list[_Allocation]) -> list[_Allocation]:
    """Return the allocations in the device's own memory, else in that of the largest."""
    if not temporary:
        raise InstanceError(f"an allocation that is a {TEMPORARY} is needed, found none")
    chosen = max(temporary, key=lambda its: (its.color == 0, its.size)).color
    for color in sorted({its.color for its in temporary} - {chosen}):
        held = sum(its.size for its in temporary if its.color == color)
        why = f"a problem has one memory, here that of color {chosen}"
        warn_of_left_out(path, f"{TEMPORARY} memory of color {color}, {held} bytes,", why)
    return [its for its in temporary if its.color == chosen]


def _recognises(path: Path, head: bytes) -> bool:  # noqa: ARG001 - the first line says it
    return head.startswith(FIRST_LINE.encode())


XLA_ASSIGNMENT = Format("xla-assignment", (".txt",), _recognises, read_xla_assignment)


@dataclass(frozen=True)
class _Value:
    # The name includes the place in a tuple, as in live ranges.
    name: str
    size: int
    offset: int
    is_state: bool
    line: int


@dataclass
class _Allocation:
    size: int
    kinds: list[str]
    values: list[_Value] = field(default_factory=list)

    @property
    def color(self) -> int:
        """The number of the memory; XLA names none for the device's own."""
        named = (kind.removeprefix("color ") for kind in self.kinds if kind.startswith("color "))
        return int(next(filter(str.isdecimal, named), 0))

    @property
    def is_persistent(self) -> bool:
        return any(kind == "constant" or kind.startswith("parameter ") for kind in self.kinds)

    @property
    def is_output(self) -> bool:
        return LIVE_OUT in self.kinds and not self.is_persistent


@dataclass
class _Storage:
    """Values that share bytes."""

    name: str
    size: int
    offset: int
    start: int
    end: int
    # Steps in which none of the values lives.
    gaps: list[tuple[int, int]] = field(default_factory=list)


def _allocations(text: str) -> Iterator[_Allocation]:
    found: _Allocation | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if number == 1 and line == FIRST_LINE:
            continue
        if not line or line.startswith(LIVE_RANGE_HEAD):
            break
        if match := _ALLOCATION.fullmatch(line):
            if found is not None:
                yield found
            found = _Allocation(_number(match[1], number), (match[2] or "").split(", "))
        elif (match := _VALUE.fullmatch(line)) and found is not None:
            name, place, state, size, offset = match.groups()
            value = _Value(
                name + (place or "{}"),
                _number(size, number),
                _number(offset, number),
                state is not None,
                number,
            )
            if value.offset + value.size > found.size:
                raise InstanceError(
                    f"line {number}: a value that ends by byte {found.size} of its allocation is "
                    f"needed, found one to {value.offset + value.size}"
                )
            found.values.append(value)
        else:
            raise InstanceError(
                f"line {number}: 'allocation N: size BYTES, KIND:' or ' value: <N NAME @0> "
                f"(size=BYTES,offset=BYTES): SHAPE' below one is needed, found {shown(line)}"
            )
    if found is not None:
        yield found


def _live_ranges_beside(path: Path) -> dict[str, tuple[int, int]]:
    if not path.name.endswith(ENDING):
        raise InstanceError(
            f"{path}: live ranges are needed, in the file or in one beside it; for the latter a "
            f"name that ends in {ENDING}"
        )
    beside = path.with_name(f"{path.name.removesuffix(ENDING)}{LIVE_RANGE_ENDING}")
    with errors_at(beside):
        ranges = _live_ranges(read_bounded_text(beside, MAX_TEXT_BYTES))
        if ranges is None:
            raise InstanceError(f"a line '{LIVE_RANGES.strip()}' is needed, found none")
        return ranges


def _live_ranges(text: str) -> dict[str, tuple[int, int]] | None:
    """Return the half-open steps of each value; None if the text has no live ranges."""
    ranges: dict[str, tuple[int, int]] = {}
    is_below = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not is_below:
            is_below = line == LIVE_RANGES
            continue
        if not line.startswith("    "):
            return ranges
        match = _RANGE.fullmatch(line)
        if match is None:
            raise InstanceError(
                f"line {number}: 'NAME{{}}:FIRST-LAST' is needed, found {shown(line)}"
            )
        start, end = _number(match[2], number), _number(match[3], number)
        if end < start:
            raise InstanceError(f"line {number}: a range that ends after it begins is needed")
        known = ranges.get(match[1], (start, end + 1))
        ranges[match[1]] = min(start, known[0]), max(end + 1, known[1])
    return ranges if is_below else None


def _storages(
    temporary: list[_Allocation], alignment: int, ranges: dict[str, tuple[int, int]]
) -> list[_Storage]:
    """Return the storages of allocations that stand one above the other."""
    by_place: dict[tuple[int, int], list[_Value]] = defaultdict(list)
    begin = 0
    for allocation in temporary:
        for value in allocation.values:
            if value.name not in ranges:
                raise InstanceError(
                    f"line {value.line}: a live range of {shown(value.name)} is needed, found none"
                )
            by_place[begin + value.offset, value.size].append(value)
        begin += -(-allocation.size // alignment) * alignment
    storages: list[_Storage] = []
    for (offset, _), values in by_place.items():
        values.sort(key=lambda value: ranges[value.name])
        storages += _merged(offset, values, ranges)
    storages.sort(key=lambda storage: (storage.start, storage.offset))
    return storages


def _merged(
    offset: int, values: list[_Value], ranges: dict[str, tuple[int, int]]
) -> Iterator[_Storage]:
    """Yield the storages of values at one place; the values are sorted by their first step."""
    has_state = any(value.is_state for value in values)
    found: _Storage | None = None
    for value in values:
        start, end = ranges[value.name]
        if found is None or (start >= found.end and not has_state):
            if found is not None:
                yield found
            found = _Storage(value.name.removesuffix("{}"), value.size, offset, start, end)
            continue
        if start > found.end:
            found.gaps.append((found.end, start))
        found.end = max(found.end, end)
    if found is not None:
        yield found


def _alignment(offsets: Sequence[int]) -> int:
    """Return the largest power of two up to `MOST_ALIGNMENT` that divides all offsets."""
    alignment = MOST_ALIGNMENT
    while any(offset % alignment for offset in offsets):
        alignment //= 2
    return alignment


def _number(digits: str, line: int) -> int:
    if int(digits) >= INT64_MAX:
        raise InstanceError(f"line {line}: numbers below 2**63 - 1 are needed, found {digits}")
    return int(digits)
