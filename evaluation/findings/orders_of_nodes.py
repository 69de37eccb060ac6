"""What the order of a graph's nodes costs: bounds and plans in the given order and in a new one."""

from __future__ import annotations

from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from evaluation.study.record import ANSWERED, Record
from planners.compare.report import percent
from planners.text.byte_units import exact_bytes
from planners.text.table import Row, Table, columns_of

# The planner that searches, from the study's own file.
PLANNER = "reorderings"
HEADINGS = (
    "instance", "nodes", "given order, bytes", "new order, bytes", "saved, bytes", "of the bound",
    "no order below, bytes", "by", "still open", "saved by plans of `auto`, bytes",
)  # fmt: skip


@slot("reordered-streams")
def _reordered_streams(material: PageMaterial) -> str:
    return _table(material, "kept")


@slot("reordered-alone")
def _reordered_alone(material: PageMaterial) -> str:
    return _table(material, "one")


@slot("reordered-counts")
def _counts(material: PageMaterial) -> str:
    rows = []
    for streams in ("kept", "one"):
        found = _records(material, streams)
        saved = [_share_saved(record) for record in found]
        if found:
            rows.append(Row((
                streams, f"{len(found)}", f"{sum(share > 0 for share in saved)}",
                f"{sum(share >= 0.01 for share in saved)}", percent(max(saved)),
                f"{sum(_open_bytes(record) == 0 for record in found)}",
            )))  # fmt: skip
    headings = ("streams", "graphs", "saved at all", "at least 1 %", "most", "proven")
    return Table(columns_of(*headings), rows).markdown() if rows else ""


def _records(material: PageMaterial, streams: str) -> list[Record]:
    return [
        record
        for record in material.records
        if record.planner == PLANNER
        and record.status in ANSWERED
        and record.parameters["streams"] == streams
    ]


def _table(material: PageMaterial, streams: str) -> str:
    found = _records(material, streams)
    most = max(map(_share_saved, found), default=0.0)
    rows = []
    for record in found:
        cells = _cells(record)
        is_best = most > 0 and _share_saved(record) == most
        rows.append(Row.best(cells) if is_best else Row(cells))
    return Table(columns_of(*HEADINGS), rows, is_marked=False).markdown() if rows else ""


def _cells(record: Record) -> tuple[str, ...]:
    given, reordered, least = (_bytes(record, name) for name in ("given", "reordered", "least"))
    plans = _bytes(record, "given_peak") - _bytes(record, "reordered_peak")
    return (
        cell(record.instance), f"{_bytes(record, 'nodes'):,}", exact_bytes(given),
        exact_bytes(reordered), exact_bytes(given - reordered), percent(_share_saved(record)),
        exact_bytes(least), str(record.statistics["certificate"]),
        percent(_open_bytes(record) / reordered if reordered else 0.0), f"{plans:,}",
    )  # fmt: skip


def _bytes(record: Record, name: str) -> int:
    return int(record.statistics[name])


def _share_saved(record: Record) -> float:
    given = _bytes(record, "given")
    return (given - _bytes(record, "reordered")) / given if given else 0.0


def _open_bytes(record: Record) -> int:
    return _bytes(record, "reordered") - _bytes(record, "least")
