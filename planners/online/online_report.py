"""Results of online allocators for people: the requests in one line, tables, and notes."""

from __future__ import annotations

from planners.model.online_result import OnlineResult
from planners.model.plan import Status
from planners.model.problem import Scalar
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import OnlineRow, OnlineRun
from planners.text.byte_units import counted, exact_bytes, human_bytes, three_digits
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table, columns_of

COLUMNS = (
    Column("online allocator", is_left=True, wraps=True), Column("reserved\npeak"), Column("bytes"),
    Column("allocated\npeak"), Column("efficiency"), Column("fragmentation"),
    Column("device\ncalls"), Column("stalls"), Column("seconds"), Column("events/s"),
)  # fmt: skip
FAILED_STYLE = "bold red"
INCOMPLETE_STYLE = "yellow"
APART = "every block was stamped when it was handed out, and whole when it was freed"
FROM_LIFETIMES = (
    "the requests are not recorded: each tensor is asked for at its first step, of its producer's "
    "stream, and freed behind its last"
)


def requests_line(requests: RequestSequence) -> str:
    """Return the line above the table, on the requests."""
    streams = len(set(requests.stream.tolist()))
    return (
        f"{one_line(requests.name, MOST_SHOWN_NAME)}: {counted(requests.row_count, 'event')}, "
        f"{counted(requests.request_count, 'request')}, {counted(streams, 'stream')}"
    )


def online_table(run: OnlineRun) -> Table:
    """Return the table of peaks, efficiency and time; the fewest reserved bytes are marked."""
    rows = []
    for row in run.rows:
        cells = _cells(row, run.requests)
        if run.is_best(row):
            rows.append(Row.best(cells))
        else:
            failed = FAILED_STYLE if row.result is None else INCOMPLETE_STYLE
            rows.append(Row(cells, style=failed if row.reason else ""))
    left_out = ("bytes", "fragmentation", "events/s")
    return Table(COLUMNS, rows, is_marked=True, first_left_out=left_out)


def calls_table(run: OnlineRun) -> Table:
    """Return the table of device calls: a column for each kind of call."""
    results = {row.label: row.result for row in run.rows if row.result is not None}
    kinds = list(dict.fromkeys(kind for result in results.values() for kind in _asked(result)))
    rows = [
        Row([label, *(exact_bytes(result.device_calls.get(kind, 0)) for kind in kinds)])
        for label, result in results.items()
    ]
    return Table(columns_of("device calls", *kinds), rows, turns=True)


def figures_table(run: OnlineRun) -> Table:
    """Return the table of figures that single allocators keep, a column for each."""
    counted_by = {row.label: row.result.statistics for row in run.rows if row.result is not None}
    names = list(dict.fromkeys(name for figures in counted_by.values() for name in figures))
    rows = [
        Row([label, *(_shown(figures.get(name)) for name in names)])
        for label, figures in counted_by.items()
        if figures
    ]
    return Table(columns_of("own figures", *names), rows, turns=True)


def times_table(run: OnlineRun) -> Table:
    """Return the table of microseconds: for an event, and for a call of each timed kind."""
    results = {
        row.label: row.result for row in run.rows if row.result and row.result.device_seconds
    }
    kinds = list(dict.fromkeys(kind for result in results.values() for kind in timed_calls(result)))
    rows = [
        Row(
            [
                label,
                three_digits(result.microseconds_an_event(run.requests.row_count)),
                f"{100 * result.device_share:.1f} %",
                last_microseconds(result, run.requests),
                *(
                    three_digits(result.microseconds_a_call(kind))
                    if kind in timed_calls(result)
                    else "-"
                    for kind in kinds
                ),
            ]
        )
        for label, result in results.items()
    ]
    return Table(
        columns_of("us", "an event", "of it in calls", "last iteration", *kinds), rows, turns=True
    )


def last_microseconds(result: OnlineResult, requests: RequestSequence) -> str:
    """Return the mean time of an event of the last iteration; a dash if no iteration ended."""
    if not (result.last_iteration_seconds and requests.iteration_rows.size):
        return "-"
    events = requests.row_count - requests.last_iteration_row
    return three_digits(1e6 * result.last_iteration_seconds / events)


def timed_calls(result: OnlineResult) -> list[str]:
    """Return the kinds of device calls that were made and timed."""
    return [kind for kind in _asked(result) if kind in result.device_seconds]


def online_notes(run: OnlineRun) -> list[str]:
    """Return the lines below the tables: the origin of the requests, and failed allocators."""
    lines = [] if run.requests.is_recorded else [FROM_LIFETIMES]
    labels_of: dict[str, list[str]] = {}
    for row in run.rows:
        reason = row.reason if row.valid else f"{Status.INVALID.value}, {row.reason}"
        labels_of.setdefault(reason, []).append(row.label)
    lines += [
        f"{', '.join(labels)}: {one_line(reason)}" for reason, labels in labels_of.items() if reason
    ]
    if run.terms.is_verified and run.rows and all(row.result is not None for row in run.rows):
        lines.append(APART)
    if run.left_out:
        lines.append(f"interrupted; not run: {', '.join(run.left_out)}")
    return lines


def _asked(result: OnlineResult) -> list[str]:
    return [kind for kind, calls in result.device_calls.items() if calls]


def _shown(figure: Scalar | None) -> str:
    if figure is None:
        return "-"
    return exact_bytes(figure) if type(figure) is int else str(figure)


def _cells(row: OnlineRow, requests: RequestSequence) -> tuple[str, ...]:
    result = row.result
    if result is None:
        peak = "-" if row.valid else Status.INVALID.value
        return (row.label, peak, *("-" for _ in COLUMNS[2:]))
    ended = result.out_of_memory_row
    served = requests.row_count if ended is None else ended
    return (
        row.label,
        human_bytes(result.reserved_peak),
        exact_bytes(result.reserved_peak),
        human_bytes(result.allocated_peak),
        f"{100 * result.efficiency:.2f} %",
        f"{100 * result.fragmentation:.2f} %",
        f"{result.call_count:,}",
        f"{result.stalls:,}",
        f"{result.seconds:.3f}",
        three_digits(served / result.seconds) if result.seconds else "-",
    )
