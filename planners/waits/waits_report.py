"""A frontier of bytes against waits for people and for programs: a table, notes, and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planners.compare.report import percent
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.text.byte_units import both_bytes, counted, exact_bytes, human_bytes
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table
from planners.waits.waits_frontier import WaitsFrontier, WaitsPoint

SCHEMA = "gapless-waits"
SCHEMA_VERSION = 1
COLUMNS = (
    Column("waits"), Column("used"), Column("peak"), Column("bytes"), Column("bound"),
    Column("by", is_left=True), Column("gap to\nbound"), Column("seconds"),
)  # fmt: skip


def streams_line(frontier: WaitsFrontier) -> str:
    """Return the line above the table: the graph, and the bound that no number of waits lowers."""
    graph, least = frontier.streams.graph, frontier.streams.least
    parts = (
        counted(graph.node_count, "node"),
        counted(graph.stream_count, "stream"),
        counted(len(frontier.candidates), "wait") + " to choose from",
        f"with all of them {least.name} {both_bytes(least.bytes)}",
    )
    return f"{one_line(frontier.streams.problem.name, MOST_SHOWN_NAME)}: {'; '.join(parts)}"


def frontier_table(points: Sequence[WaitsPoint]) -> Table:
    """Return one line a number of waits."""
    rows = []
    for point in points:
        cells = (
            f"{point.count:,}",
            f"{len(point.waits):,}",
            human_bytes(point.peak),
            exact_bytes(point.peak),
            exact_bytes(point.bound),
            point.certificate,
            percent(point.gap),
            f"{point.result.seconds:.3f}",
        )
        rows.append(Row.best(cells) if point.gap == 0 else Row(cells))
    return Table(COLUMNS, rows, is_marked=True, first_left_out=("peak", "seconds"))


def waits_lines(point: WaitsPoint) -> list[str]:
    """Return a line for each wait of a point."""
    return [
        "node {} waits for {}".format(
            *(
                f"{end['node']} ({one_line(end['op'], MOST_SHOWN_NAME)}, stream {end['stream']})"
                for end in (arc["before"], arc["after"])
            )
        )
        for arc in _arcs(point)
    ]


def frontier_record(
    frontier: WaitsFrontier, points: Sequence[WaitsPoint], file: str
) -> dict[str, Any]:
    """Return a frontier as plain values, every number exact."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "file": file,
        "instance": frontier.streams.problem.name,
        "least": frontier.streams.least.bytes,
        "points": [
            {
                "waits": point.count,
                "peak": point.peak,
                "lower_bound": point.bound,
                "certificate": point.certificate,
                "gap_to_bound": point.gap,
                "seconds": point.result.seconds,
                "arcs": _arcs(point),
            }
            for point in points
        ],
    }


def _arcs(point: WaitsPoint) -> list[dict[str, dict[str, Any]]]:
    graph = point.problem.graph
    assert graph is not None
    ends = {"after": 0, "before": 1}
    return [
        {
            end: {
                "node": wait[at],
                "op": graph.op[wait[at]],
                "stream": int(graph.stream[wait[at]]),
            }
            for end, at in ends.items()
        }
        for wait in sorted(point.waits)
    ]
