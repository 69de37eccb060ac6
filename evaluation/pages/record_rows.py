"""Records as rows of a table: one for each run, or for each planner on an instance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from evaluation.pages.cases import Case
from evaluation.study.gaps import ContradictionError, InstanceFacts
from evaluation.study.record import ANSWERED, RECORDS, Record
from evaluation.study.recording_part import settings_in
from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.catalogue_file import read_catalogue
from planners.errors import GaplessError, near_names
from planners.text.byte_units import exact_bytes
from planners.text.plain_text import one_line

# Characters of a reason in a table.
MOST_REASON = 160

_MAPPINGS = ("parameters", "statistics", "bounds")
_LEFT_OUT = (*_MAPPINGS, "machine", "versions", "schema", "incumbents", "certificate")
# Fields of records of every kind; a field that no record has is a column of unknown values.
_FIELDS = [
    name
    for name in dict.fromkeys(name for kind in RECORDS.values() for name in kind.__struct_fields__)
    if name not in _LEFT_OUT
]


Rows = list[dict[str, Any]]


def rows_of_cases(cases: Sequence[Case]) -> dict[str, Rows]:
    """Return the rows of the frames ``runs`` and ``cases``."""
    entries = {entry.facts.digest: entry for entry in read_catalogue().values()}
    known = {case.facts.subject: _known_of(case.facts, entries) for case in cases}
    places = {subject: place for place, subject in enumerate(known)}
    runs = []
    lines = []
    usual = _usual_parameters(record for case in cases for record in case.records)
    for case in cases:
        its = [
            {**_row(record, usual), **known[case.facts.subject], "label": case.label}
            for record in case.records
        ]
        runs += its
        place = places[case.facts.subject]
        lines.append({**its[0], **_of_all_runs(case, its), "place": place})
    return {"runs": runs, "cases": lines}


def _of_all_runs(case: Case, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    peaks, seconds, added = (
        [row[name] for row in rows if row[name] is not None]
        for name in ("peak", "planning_seconds", "planning_bytes")
    )
    return {
        "status": case.status.value, "peak": case.peak, "seconds": case.seconds,
        "worst_peak": max(peaks) if len(peaks) == len(rows) else None,
        "planning_seconds": median(seconds) if seconds else None,
        # A run without a time was killed.
        "worst_planning_seconds": max(seconds) if len(seconds) == len(rows) else None,
        "planning_bytes": median(added) if added else None,
        "to_bound": case.gaps.to_bound, "to_optimum": case.gaps.to_optimum,
        "to_best": case.gaps.to_best,
    }  # fmt: skip


def _usual_parameters(records: Iterable[Record]) -> Mapping[tuple[str, str], Any]:
    """Return the most frequent value of each planner's parameters."""
    counts: dict[tuple[str, str], Counter[Any]] = {}
    for record in records:
        for key, value in record.parameters.items():
            counts.setdefault((record.planner, key), Counter())[value] += 1
    return {key: its.most_common(1)[0][0] for key, its in counts.items()}


def _row(record: Record, usual: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    row = {name: getattr(record, name, None) for name in _FIELDS}
    for name in _MAPPINGS:
        # The database has no empty names.
        row[name] = {key: its for key, its in getattr(record, name, {}).items() if key}
    of_it, settings = settings_in(record.instance)
    its = record.statistics
    return row | {
        "settings": {key: _number(value) for key, value in settings.items()},
        "kind": record.kind,
        "status": record.status.value,
        "answered": record.status in ANSWERED,
        "peak": record.peak if record.status in ANSWERED else None,
        "of": of_it,
        "switched_off": ", ".join(key for key, its in record.parameters.items() if its is False),
        "unusual": ", ".join(
            f"{key}={str(its).lower() if isinstance(its, bool) else its}"
            for key, its in record.parameters.items()
            if its is not None and its != usual[record.planner, key]
        ),
        "short_reason": one_line(record.reason or "", MOST_REASON),
        "calls_made": _sum_of(record.statistics, "_calls"),
        "seconds_counted": _sum_of(record.statistics, "_seconds"),
        "source": "here",
        # A planner's own figure excludes the conversion of the problem to the planner's objects.
        "planning_seconds": its.get("placing_seconds", record.processor_seconds)
        if record.timed
        else None,
        "planning_bytes": its.get("placing_bytes", record.peak_resident_bytes),
    }


def _sum_of(statistics: Mapping[str, Any], suffix: str) -> Any:
    return sum(its for name, its in statistics.items() if name.endswith(suffix) and its is not None)


def _known_of(facts: InstanceFacts, entries: Mapping[str, CatalogueEntry]) -> dict[str, Any]:
    entry = entries.get(facts.digest)
    known = facts.optimum
    if entry is not None and entry.facts.optimum is not None:
        known = entry.facts.optimum
        if facts.best_known is not None and facts.best_known < known:
            raise ContradictionError(
                f"instance {facts.instance}: no plan is below the optimum of the catalogue, "
                f"{exact_bytes(known)}, found one of {exact_bytes(facts.best_known)} by "
                f"{facts.best_planner}"
            )
    return {
        "instance": facts.instance, "digest": facts.digest, "bound": facts.lower_bound or None,
        "certificate": facts.certificate or None, "known_optimum": known,
        "best_known": facts.best_known, "best_planner": facts.best_planner,
        "instance_kind": facts.family or ("files" if entry is None else entry.kind),
        "streams": None if entry is None else entry.facts.streams,
        "chains": None if entry is None else entry.facts.chains,
    }  # fmt: skip


def _number(text: str) -> int | float | str:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


PAGES = Path(__file__).parents[2] / "docs" / "benchmarks"


def rows_of_page(page: str, heading: str) -> list[dict[str, Any]]:
    """Return the first table below a heading of a page, with numbers where its cells show some."""
    bold = _first_bold_of(page)
    rows = rows_of(page, heading)
    return [{name: _value(its) for name, its in row.items()} | {"first_bold": bold} for row in rows]


def rows_of(page: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of the first table below a heading of a page, each by column."""
    lines = _text_of(page).splitlines()
    headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
    if heading not in headings:
        raise GaplessError(f"{page}: no heading is {heading!r}; {near_names(heading, headings)}")
    table: list[list[str]] = []
    is_below = False
    for line in lines:
        if line.startswith("#"):
            is_below = line.lstrip("# ") == heading
        elif is_below and line.startswith("|"):
            table.append([cell.strip(" *") for cell in line.strip("|").split("|")])
        elif table:
            break
    if len(table) < 3:
        raise GaplessError(f"{page}: a table is needed below {heading!r}, found none")
    columns, _, *rows = table
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _first_bold_of(page: str) -> float | None:
    """Return the first bold number outside of tables."""
    found = re.search(r"^[^|\n]*?\*\*([\d.,]+)[^*\n]*\*\*", _text_of(page), re.MULTILINE)
    return None if found is None else float(found[1].replace(",", ""))


def _text_of(page: str) -> str:
    path = PAGES / page
    if not path.is_file():
        raise GaplessError(f"{path}: the page is needed, found none; run from a checkout")
    return path.read_text(encoding="utf-8")


def _value(text: str) -> float | str:
    try:
        return number_of(text)
    except GaplessError:
        return text


def number_of(text: str) -> float:
    """Return the number that a cell shows; a percentage as a share."""
    digits = text.replace(",", "").rstrip("%").strip()
    try:
        value = float(digits)
    except ValueError:
        raise GaplessError(f"a number is needed in a cell, found {text!r}") from None
    return value / 100 if text.endswith("%") else value
