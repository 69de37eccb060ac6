"""What online allocators take on a device that is timed: an event, a call, the last iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.claims.replayed_run import ReplayedRun, replayed_runs
from evaluation.report.gap_tables import NOTHING, cell
from evaluation.report.slots import PageMaterial, slot
from evaluation.study.record import Record
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

CALLS, SECONDS = "_calls", "_seconds"


@slot("timed-device")
def _timed_device(material: PageMaterial) -> str:
    names = (str(record.statistics["device"]) for _, record in _timed(material))
    return ", ".join(dict.fromkeys(names))


@slot("requests-table")
def _requests_table(material: PageMaterial) -> str:
    rows = []
    for name, run in sorted(replayed_runs(material.records).items()):
        record = next(iter(run.by_allocator.values()))
        cells = (cell(name), f"{record.tensors:,}", f"{_number(record.statistics, 'rows'):,.0f}")
        rows.append(Row(cells))
    columns = columns_of("run", "requests", "requests and frees")
    return Table(columns, rows).markdown() if rows else ""


@slot("allocator-times-table")
def _allocator_times_table(material: PageMaterial) -> str:
    rows = [Row((cell(run.name), cell(name_of(run, record)), *_times(record)))
            for run, record in _timed(material)]  # fmt: skip
    headings = ("run", "allocator", "an event (us)", "of it in calls", "in the last iteration (us)")
    return Table(columns_of(*headings, left=2), rows).markdown() if rows else ""


@slot("call-times-table")
def _call_times_table(material: PageMaterial) -> str:
    timed = _timed(material)
    kinds = list(dict.fromkeys(kind for _, record in timed for kind in _timed_kinds(record)))
    rows = [
        Row((
            cell(run.name), cell(name_of(run, record)), *(_calls(record, kind) for kind in kinds),
        ))
        for run, record in timed
    ]  # fmt: skip
    return Table(columns_of("run", "allocator", *kinds, left=2), rows).markdown() if rows else ""


def _timed(material: PageMaterial) -> Sequence[tuple[ReplayedRun, Record]]:
    """Return the runs on a device that times calls, by run."""
    return [
        (run, record)
        for _, run in sorted(replayed_runs(material.records).items())
        for record in run.by_allocator.values()
        if "device" in record.statistics
    ]


def name_of(run: ReplayedRun, record: Record) -> str:
    """Return what an allocator is called in a run."""
    return next(name for name, its in run.by_allocator.items() if its is record)


def _times(record: Record) -> Sequence[str]:
    its = record.statistics
    seconds, rows = _number(its, "allocator_seconds"), _number(its, "rows")
    late, late_rows = (_number(its, f"last_iteration{end}") for end in (SECONDS, "_rows"))
    in_calls = sum(_call_seconds(its).values())
    return (
        three_digits(1e6 * seconds / rows) if rows else NOTHING,
        f"{100 * in_calls / seconds:.1f} %" if seconds else NOTHING,
        three_digits(1e6 * late / late_rows) if late and late_rows else NOTHING,
    )


def _calls(record: Record, kind: str) -> str:
    if kind not in _timed_kinds(record):
        return NOTHING
    count = _number(record.statistics, f"{kind}{CALLS}")
    took = _call_seconds(record.statistics)[kind]
    return f"{count:,.0f} x {three_digits(1e6 * took / count)}"


def _timed_kinds(record: Record) -> Sequence[str]:
    """Return the kinds of call that the device was asked and that were timed."""
    timed = _call_seconds(record.statistics)
    return [kind for kind in timed if _number(record.statistics, f"{kind}{CALLS}")]


def _call_seconds(statistics: Mapping[str, object]) -> Mapping[str, float]:
    """Return the seconds of each kind of call, and of what was asked beside them."""
    apart = ("allocator", "last_iteration")
    return {
        name.removesuffix(SECONDS): _number(statistics, name)
        for name in statistics
        if name.endswith(SECONDS) and name.removesuffix(SECONDS) not in apart
    }


def _number(statistics: Mapping[str, object], name: str) -> float:
    value = statistics.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
