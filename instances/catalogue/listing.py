"""The catalogue for people and for programs: a line an entry, everything of one, JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances.catalogue.catalogue_entry import CatalogueEntry, entry_to_fields
from planners.compare.report import percent
from planners.errors import InstanceError, near_names
from planners.text.aligned_text import aligned_text
from planners.text.byte_units import both_bytes, exact_bytes, human_bytes

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = (
    "name", "tensors", "streams", "chains", "naive", "best bound", "best known", "status", "gap",
    "file", "origin",
)  # fmt: skip
RIGHT_ALIGNED = range(1, 7)
# Of a terminal with few columns; `show` has everything of an entry.
FIRST_LEFT_OUT = ("origin", "file", "naive", "chains", "streams", "best bound", "status")
LEAST_ORIGIN = 16
# Spaces from column to column.
BETWEEN = 3
GAP = HEADINGS.index("gap")


def choose_entries(
    entries: Mapping[str, CatalogueEntry], patterns: Sequence[str], tags: Sequence[str] = ()
) -> list[CatalogueEntry]:
    """Return the entries that match."""
    names = matching_names(patterns, entries) if patterns else set(entries)
    words = {word for entry in entries.values() for word in (*entry.tags, *entry.kind.split())}
    for tag in tags:
        if tag not in words:
            raise InstanceError(f"no instance has the tag {tag!r}; {near_names(tag, words)}")
    return [
        entry
        for name, entry in sorted(entries.items())
        if name in names and all(tag in (*entry.tags, *entry.kind.split()) for tag in tags)
    ]


def matching_names(patterns: Sequence[str], known: Iterable[str]) -> set[str]:
    """Return the names that match any of some patterns."""
    names = list(known)
    found: set[str] = set()
    for pattern in patterns:
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise InstanceError(f"no instance matches {pattern!r}; {near_names(pattern, names)}")
        found.update(matching)
    return found


def is_here(entry: CatalogueEntry, folder: Path) -> bool:
    """Return whether the file of an entry lies in a folder."""
    return (folder / entry.file).is_file()


def plain_table(entries: Iterable[CatalogueEntry], folder: Path) -> str:
    """Return the entries as aligned text, for pipes and files."""
    rows = [HEADINGS, *(_cells(entry, folder) for entry in entries)]
    return aligned_text(rows, [i for i in range(len(HEADINGS)) if not _is_right_aligned(i)])


def rich_table(entries: Iterable[CatalogueEntry], folder: Path, width: int) -> Table:
    """Return the entries as a table for a terminal."""
    # Imported here because a list in a pipe does without it.
    from rich import box
    from rich.table import Table

    listed = list(entries)
    rows = [HEADINGS, *(_cells(entry, folder) for entry in listed)]
    shown = _fitting_columns(rows, width)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index in shown:
        heading = HEADINGS[index]
        table.add_column(
            heading,
            justify="right" if _is_right_aligned(index) else "left",
            no_wrap=heading != "name",
            overflow="ellipsis" if heading == "origin" else "fold",
            min_width=None if heading in ("name", "origin") else _width(rows, index),
        )
    for entry, row in zip(listed, rows[1:], strict=True):
        style = "green" if entry.best.status == "optimal" else ""
        table.add_row(*(row[index] for index in shown), style=style)
    return table


def _fitting_columns(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns that a terminal has room for."""
    needed = [_width(rows, index) for index in range(len(HEADINGS))]
    needed[HEADINGS.index("origin")] = LEAST_ORIGIN
    shown = list(range(len(HEADINGS)))
    for heading in FIRST_LEFT_OUT:
        if sum(needed[index] + BETWEEN for index in shown) - BETWEEN <= width:
            break
        shown.remove(HEADINGS.index(heading))
    return shown


def _width(rows: Sequence[Sequence[str]], index: int) -> int:
    return max(len(row[index]) for row in rows)


def description(entry: CatalogueEntry, folder: Path) -> str:
    """Return everything the catalogue says of an entry, a line a field."""
    fields = entry_to_fields(entry)
    best = fields.pop("best")
    bounds = fields.pop("bounds")
    for field in ("naive", "capacity", "optimum"):
        if field in fields:
            fields[field] = both_bytes(fields[field])
    if entry.tags:
        fields["tags"] = ", ".join(entry.tags)
    fields["file"] = f"{entry.file}, {_where(entry, folder)}"
    del fields["committed"]
    for name, size in bounds.items():
        fields[f"bound {name}"] = both_bytes(size)
    fields["best known"] = f"{both_bytes(best['peak'])}, {best['status']}"
    fields["best bound"] = f"{both_bytes(best['lower_bound'])}, {best['certificate']}"
    fields["gap"] = percent(entry.gap)
    if entry.fits is not None:
        fields["fits"] = "yes" if entry.fits else "no"
    fields["found by"] = f"{best['planner']}, version {best['version']}, commit {best['commit']}"
    width = max(map(len, fields))
    return f"{entry.name}\n" + "".join(f"  {key:{width}}  {fields[key]}\n" for key in fields)


def record(entry: CatalogueEntry, folder: Path) -> dict[str, Any]:
    """Return an entry as plain values: name, fields, gap, and whether it is here."""
    own = {"name": entry.name, **entry_to_fields(entry)}
    return own | {"gap": entry.gap, "here": is_here(entry, folder)}


def _cells(entry: CatalogueEntry, folder: Path) -> tuple[str, ...]:
    facts, best = entry.facts, entry.best
    return (
        entry.name,
        exact_bytes(facts.tensors),
        str(facts.streams),
        str(facts.chains),
        human_bytes(facts.naive),
        human_bytes(best.lower_bound),
        human_bytes(best.peak),
        best.status,
        percent(entry.gap),
        _where(entry, folder),
        entry.origin,
    )


def _where(entry: CatalogueEntry, folder: Path) -> str:
    where = "committed" if entry.committed else "regenerated"
    return where if is_here(entry, folder) else f"{where}, not here"


def _is_right_aligned(index: int) -> bool:
    return index in RIGHT_ALIGNED or index == GAP
