"""A frontier of bytes against waits for people and for programs: a table, notes, and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planners.compare.report import percent
from planners.model.plan import Status
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.text.byte_units import both_bytes, counted, exact_bytes, human_bytes
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table
from planners.waits.waiting_streams import Wait, WaitingStreams
from planners.waits.waits_frontier import WaitsPoint

SCHEMA = "gapless-waits"
SCHEMA_VERSION = 1
COLUMNS = (
    Column("waits"), Column("used"), Column("peak"), Column("bytes"), Column("bound"),
    Column("by", is_left=True), Column("gap to\nbound"), Column("seconds"),
)  # fmt: skip


def streams_line(streams: WaitingStreams, candidates: int) -> str:
    """Return the line above the table: the graph, and the bound that no number of waits lowers."""
    graph, least = streams.graph, streams.least
    name = one_line(streams.problem.name, MOST_SHOWN_NAME)
    return (
        f"{name}: {counted(graph.node_count, 'node')} on {counted(graph.stream_count, 'stream')}, "
        f"{counted(graph.tensor_count, 'tensor')}; {counted(candidates, 'wait')} to choose from; "
        f"with all of them {least.name} {both_bytes(least.bytes)}"
    )


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
    return [f"node {_node(point, v)} waits for {_node(point, u)}" for u, v in sorted(point.waits)]


def frontier_record(
    streams: WaitingStreams, points: Sequence[WaitsPoint], file: str
) -> dict[str, Any]:
    """Return a frontier as plain values, every number exact."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "file": file,
        "instance": streams.problem.name,
        "nodes": streams.graph.node_count,
        "streams": streams.graph.stream_count,
        "least": streams.least.bytes,
        "points": [
            {
                "waits": point.count,
                "peak": point.peak,
                "lower_bound": point.bound,
                "certificate": point.certificate,
                "gap_to_bound": point.gap,
                "planner": point.result.planner,
                "seconds": point.result.seconds,
                "valid": point.result.valid,
                "arcs": [_arc_fields(point, wait) for wait in sorted(point.waits)],
            }
            for point in points
        ],
    }


def all_valid(points: Sequence[WaitsPoint]) -> bool:
    """Return True if no planner gave a wrong plan."""
    return all(point.result.status is not Status.INVALID for point in points)


def _arc_fields(point: WaitsPoint, wait: Wait) -> dict[str, Any]:
    graph = point.problem.graph
    assert graph is not None
    return {
        side: {"node": node, "op": graph.op[node], "stream": int(graph.stream[node])}
        for side, node in zip(("after", "before"), wait, strict=True)
    }


def _node(point: WaitsPoint, node: int) -> str:
    graph = point.problem.graph
    assert graph is not None
    return f"{node} ({one_line(graph.op[node], MOST_SHOWN_NAME)}, stream {graph.stream[node]})"
