"""The page on the benchmark: its words stand in ``page.md``, its tables are the catalogue's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from instances.catalogue.catalogue_entry import DIFFICULTIES, CatalogueEntry
from instances.catalogue.catalogue_file import read_catalogue
from planners.compare.report import percent
from planners.text.byte_units import exact_bytes
from planners.text.table import Column, Row, Table, columns_of

WORDS = Path(__file__).with_name("page.md")

_COLUMNS = (
    *columns_of("instance", "tensors", "streams", "chains", "best peak", "best bound", "gap"),
    *(Column(heading, is_left=True) for heading in ("found by", "bound by")),
)
_OTHERS_COLUMNS = [Column(heading, is_left=True) for heading in ("class", "source", "licence")]


def benchmark_page() -> str:
    """Return the page as Markdown."""
    entries = read_catalogue().values()
    own = [entry for entry in entries if not entry.source]
    others = [entry for entry in entries if entry.source]
    rows = [Row([*_cells(each), each.difficulty, each.source, each.licence]) for each in others]
    filled = {
        "count": str(len(own)),
        "others": Table([*_COLUMNS, *_OTHERS_COLUMNS], rows).markdown(),
    }
    for difficulty in DIFFICULTIES:
        rows = [Row(_cells(entry)) for entry in own if entry.difficulty == difficulty]
        filled[difficulty] = Table(_COLUMNS, rows).markdown()
        filled[f"{difficulty}-count"] = str(len(rows))
    text = WORDS.read_text(encoding="utf-8")
    for place, content in filled.items():
        text = text.replace(f"<<{place}>>", content)
    return text


def _cells(entry: CatalogueEntry) -> Sequence[str]:
    facts, best = entry.facts, entry.best
    numbers = facts.tensors, facts.streams, facts.chains, best.peak, best.lower_bound
    its = percent(entry.gap), best.planner, best.certificate
    return (entry.name, *map(exact_bytes, numbers), *its)
