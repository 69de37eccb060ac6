"""Compares two answers of ``gpu_runtime.fit --json``: growth by allocator and by module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gpu_runtime.fitting.fit_report import ANSWERS, OUTSIDE, SCHEMA, SCHEMA_VERSION
from gpu_runtime.fitting.rank_fit import Fits
from planners.errors import InstanceError, errors_at
from planners.files.json_file import read_json
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.text.byte_units import MOST_BYTES, exact_bytes, human_bytes, parse_bytes
from planners.text.plain_text import one_line, shown
from planners.text.table import Column, Row, Table, and_more, columns_of

GREW_STYLE = "bold red"
# Time and module of blocks, see LiveGroup.
_Key = tuple[str, str]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]
# Few enough digits for exact arithmetic.
_PERCENTAGE = re.compile(r"(\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,2})?) *%", re.ASCII)


class _Group(msgspec.Struct, frozen=True):
    since: str
    module: str
    size: _Bytes


class _Peak(msgspec.Struct, frozen=True):
    groups: list[_Group]


class _Row(msgspec.Struct, frozen=True):
    label: str
    reserved_peak: _Bytes


class SavedFit(msgspec.Struct, frozen=True):
    """The fields of an answer of ``gpu_runtime.fit --json`` that a comparison reads."""

    schema: str
    version: int
    program: str
    origin: dict[str, str | int | float | bool | None]
    memory: _Bytes | None
    answer: Fits | None
    peak: _Peak
    allocators: list[_Row]


def read_fit(path: Path) -> SavedFit:
    """Read a file that ``gpu_runtime.fit --json`` printed."""
    with errors_at(path):
        try:
            record = msgspec.convert(read_json(path), SavedFit)
        except (msgspec.ValidationError, UnicodeError) as error:
            raise InstanceError(f"the answer of `fit --json` is needed, found: {error}") from None
        if (record.schema, record.version) != (SCHEMA, SCHEMA_VERSION):
            raise InstanceError(
                f"schema {SCHEMA}, version {SCHEMA_VERSION} is needed, found {shown(record.schema)}"
                f", version {shown(record.version)}"
            )
        for field, names in (
            ("allocators", [row.label for row in record.allocators]),
            ("peak.groups", [(group.since, group.module) for group in record.peak.groups]),
        ):
            if len(set(names)) < len(names):
                raise InstanceError(f"field {field}: each name is needed once, found one twice")
        return record


@dataclass(frozen=True)
class Threshold:
    """The growth that is still allowed: a share of the old bytes, or bytes."""

    share: Fraction = Fraction(0)
    size: int = 0

    @classmethod
    def parse(cls, text: str) -> Threshold:
        percentage = _PERCENTAGE.fullmatch(text)
        if percentage is not None:
            return cls(share=Fraction(percentage[1]) / 100)
        return cls(size=parse_bytes("--threshold: a percentage, such as 1%, or bytes", text))

    def allows(self, old: int, new: int) -> bool:
        return new - old <= old * self.share + self.size


@dataclass(frozen=True)
class FitDifference:
    """Two answers of one program, the old one first."""

    old: SavedFit
    new: SavedFit
    threshold: Threshold

    @property
    def reserved(self) -> dict[str, tuple[int | None, int | None]]:
        """Return old and new reserved bytes of each allocator; None where one was not asked."""
        return _pairs(*(
            {row.label: row.reserved_peak for row in one.allocators} for one in (self.old, self.new)
        ))  # fmt: skip

    @property
    def grown(self) -> list[str]:
        """Return the allocators whose reserved bytes grew beyond the threshold."""
        return [
            label
            for label, (old, new) in self.reserved.items()
            if old is not None and new is not None and not self.threshold.allows(old, new)
        ]

    @property
    def groups(self) -> list[tuple[_Key, int, int]]:
        """Return old and new bytes of each module that changed at the peak, most change first."""
        pairs = _pairs(*(
            {(group.since, group.module): group.size for group in one.peak.groups}
            for one in (self.old, self.new)
        ))  # fmt: skip
        changed = [(key, old or 0, new or 0) for key, (old, new) in pairs.items() if old != new]
        return sorted(changed, key=lambda one: -abs(one[2] - one[1]))

    @property
    def notes(self) -> list[str]:
        """Return the lines below the tables: which settings changed, and the answers."""
        settings = _pairs(*({"program": one.program, **one.origin} for one in (self.old, self.new)))
        lines = [
            f"{one_line(name)}: {one_line(str(old))} -> {one_line(str(new))}"
            for name, (old, new) in settings.items()
            if old != new and name != "command"
        ]
        if self.new.answer is not None:
            lines.append(
                f"{ANSWERS[self.new.answer]}: the GPU has {human_bytes(self.new.memory or 0)}"
            )
        grown = self.grown
        answer = f"grew under {one_line(', '.join(grown))}" if grown else "did not grow"
        return [*lines, f"{answer}{_beyond(self.threshold)}"]


def _pairs(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> dict[Any, tuple[Any, Any]]:
    return {key: (old.get(key), new.get(key)) for key in {**old, **new}}


def _beyond(threshold: Threshold) -> str:
    if threshold.share:
        return f" by more than {float(100 * threshold.share):g} %"
    return f" by more than {human_bytes(threshold.size)}" if threshold.size else ""


def reserved_table(difference: FitDifference) -> Table:
    grown = set(difference.grown)
    rows = [
        Row(
            [one_line(label, MOST_SHOWN_NAME), *_sizes(old, new)],
            style=GREW_STYLE * (label in grown),
        )
        for label, (old, new) in difference.reserved.items()
    ]
    return Table(columns_of("allocator", "old", "new", "bytes more", "share"), rows)


def changed_groups_table(difference: FitDifference, most: int) -> Table:
    """Return what lives at the peak and changed: the groups that changed most."""
    rows = [
        Row([*_sizes(old, new), one_line(since), one_line(module) or OUTSIDE])
        for (since, module), old, new in difference.groups[:most]
    ]
    rows += [Row([*[""] * 5, more]) for more in and_more(len(difference.groups), most)]
    columns = (
        *columns_of("old", "new", "bytes more", "share", left=0),
        Column("since", is_left=True),
        Column("module", is_left=True, wraps=True),
    )
    return Table(columns, rows)


def _sizes(old: int | None, new: int | None) -> list[str]:
    sizes = [OUTSIDE if size is None else human_bytes(size) for size in (old, new)]
    if old is None or new is None:
        return [*sizes, OUTSIDE, OUTSIDE]
    sign = "+" if new > old else ""
    share = f"{100 * (new - old) / old:+.2f} %" if old and new != old else OUTSIDE
    return [*sizes, f"{sign}{exact_bytes(new - old)}", share]
