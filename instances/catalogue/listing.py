"""The catalogue as a table, one entry in full, and entries as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from instances.catalogue.catalogue_entry import CatalogueEntry, entry_to_fields
from instances.catalogue.instance_folders import place_of
from planners.compare.report import percent
from planners.errors import InstanceError, near_names
from planners.text.byte_units import both_bytes, exact_bytes, human_bytes
from planners.text.table import Column, Row, Table, aligned_pairs, columns_of

COLUMNS = (
    Column("name", is_left=True, wraps=True),
    Column("class", is_left=True),
    *columns_of("tensors", "streams", "chains", "naive", "best bound", "best known", "gap", left=0),
    Column("found by", is_left=True, cut_to=24), Column("file", is_left=True),
    Column("origin", is_left=True, cut_to=16),
)  # fmt: skip
# Columns that a narrow terminal loses first; `show` has them.
FIRST_LEFT_OUT = ("origin", "file", "naive", "chains", "streams", "found by", "best bound", "class")


def choose_entries(
    entries: Mapping[str, CatalogueEntry], patterns: Sequence[str], tags: Sequence[str] = ()
) -> list[CatalogueEntry]:
    """Return the entries that match."""
    names = matching_names(patterns, entries) if patterns else set(entries)
    words = {word for entry in entries.values() for word in entry.words}
    for tag in tags:
        if tag not in words:
            raise InstanceError(f"no instance has the tag {tag!r}; {near_names(tag, words)}")
    return [
        entry
        for name, entry in sorted(entries.items())
        if name in names and all(tag in entry.words for tag in tags)
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


def is_here(entry: CatalogueEntry, folders: list[Path]) -> bool:
    """Return True if the file of an entry lies in one of the folders."""
    return place_of(entry, folders) is not None


def catalogue_table(entries: Iterable[CatalogueEntry], folders: list[Path]) -> Table:
    """Return a row for each entry, green if its optimum is proven."""
    rows = [
        Row(_cells(entry, folders), style="green" if entry.best.status == "optimal" else "")
        for entry in entries
    ]
    return Table(COLUMNS, rows, first_left_out=FIRST_LEFT_OUT)


def description(entry: CatalogueEntry, folders: list[Path]) -> str:
    """Return all fields of an entry, one a line."""
    fields = entry_to_fields(entry)
    best = fields.pop("best")
    bounds = fields.pop("bounds")
    for field in ("naive", "capacity", "optimum"):
        if field in fields:
            fields[field] = both_bytes(fields[field])
    if entry.tags:
        fields["tags"] = ", ".join(entry.tags)
    fields["file"] = f"{entry.file}, {_where(entry, folders)}"
    del fields["committed"]
    for name, size in bounds.items():
        fields[f"bound {name}"] = both_bytes(size)
    fields["class"] = entry.difficulty
    fields["best known"] = f"{both_bytes(best['peak'])}, {best['status']}"
    fields["best bound"] = f"{both_bytes(best['lower_bound'])}, {best['certificate']}"
    fields["gap"] = percent(entry.gap)
    if entry.fits is not None:
        fields["fits"] = "yes" if entry.fits else "no"
    by_gapless = f", version {best['version']}, commit {best['commit']}" if best["commit"] else ""
    fields["found by"] = f"{best['planner']}{by_gapless}"
    return f"{entry.name}\n" + aligned_pairs(fields.items(), "  ")


def record(entry: CatalogueEntry, folders: list[Path]) -> dict[str, Any]:
    """Return an entry as plain values: name, fields, gap, and whether it is here."""
    own = {"name": entry.name, "class": entry.difficulty, **entry_to_fields(entry)}
    return own | {"gap": entry.gap, "here": is_here(entry, folders)}


def _cells(entry: CatalogueEntry, folders: list[Path]) -> tuple[str, ...]:
    facts, best = entry.facts, entry.best
    return (
        entry.name,
        entry.difficulty,
        exact_bytes(facts.tensors),
        str(facts.streams),
        str(facts.chains),
        human_bytes(facts.naive),
        human_bytes(best.lower_bound),
        human_bytes(best.peak),
        percent(entry.gap),
        best.planner,
        _where(entry, folders),
        entry.origin,
    )


def _where(entry: CatalogueEntry, folders: list[Path]) -> str:
    where = "committed" if entry.committed else "published" if entry.source else "regenerated"
    return where if is_here(entry, folders) else f"{where}, not here"
