"""The page on the benchmark: its words stand in ``page.md``, its tables are the catalogue's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from instances.catalogue.catalogue_entry import DIFFICULTIES, CatalogueEntry
from instances.catalogue.catalogue_file import read_catalogue
from planners.compare.report import percent
from planners.text.byte_units import exact_bytes
from planners.text.table import Column, Row, Table, columns_of

WORDS = Path(__file__).with_name("page.md")

_COLUMNS = (
    *columns_of("instance", "tensors", "streams", "chains", "best peak", "best bound", "gap"),
    Column("found by", is_left=True), Column("bound by", is_left=True),
)  # fmt: skip
_ORIGIN = (Column("class", is_left=True), Column("source", is_left=True),
           Column("licence", is_left=True))  # fmt: skip


def benchmark_page() -> str:
    """Return the page as Markdown."""
    entries = read_catalogue().values()
    own = [entry for entry in entries if not entry.source]
    filled = {"others": _table(entry for entry in entries if entry.source)}
    filled["count"] = str(len(own))
    for difficulty in DIFFICULTIES:
        its = [entry for entry in own if entry.difficulty == difficulty]
        filled |= {difficulty: _table(its), f"{difficulty}-count": str(len(its))}
    text = WORDS.read_text(encoding="utf-8")
    for place, content in filled.items():
        text = text.replace(f"<<{place}>>", content)
    return text


def _table(entries: Iterable[CatalogueEntry]) -> str:
    listed = list(entries)
    others = any(entry.source for entry in listed)
    rows = [Row([*_cells(entry), *_origin(entry)[: 3 * others]]) for entry in listed]
    return Table((*_COLUMNS, *_ORIGIN[: 3 * others]), rows).markdown() if rows else "None."


def _origin(entry: CatalogueEntry) -> tuple[str, ...]:
    return entry.difficulty, entry.source, entry.licence


def _cells(entry: CatalogueEntry) -> tuple[str, ...]:
    facts, best = entry.facts, entry.best
    counts = facts.tensors, facts.streams, facts.chains, best.peak, best.lower_bound
    return (entry.name, *map(exact_bytes, counts), percent(entry.gap), best.planner,
            best.certificate)  # fmt: skip
