"""A frontier for people and for programs: the step in one line, tables, notes, and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planners.compare.report import RANKS, STYLES, percent
from planners.model.plan import Status
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.model.work import FORWARD
from planners.recompute.limit_frontier import FrontierPoint, step_gap
from planners.recompute.limit_result import LimitResult
from planners.recompute.repeatable_step import RepeatableStep
from planners.text.byte_units import both_bytes, counted, given_bytes, human_bytes
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table

SCHEMA = "gapless-frontier"
SCHEMA_VERSION = 1

COLUMNS = (
    Column("planner", is_left=True, wraps=True), Column("status", is_left=True), Column("peak"),
    Column("extra\ntime"), Column("gap to\nbound"), Column("runs\nagain"), Column("sent"),
    Column("seconds"),
)  # fmt: skip


def step_line(step: RepeatableStep) -> str:
    """Return the line above the tables: the step, its peak, its time, and the rates behind them."""
    problem = step.problem
    again = counted(int(step.is_repeatable.sum()), "unit")
    computing = step.share(float(step.unit_seconds[step.is_repeatable].sum()))
    parts = [
        f"{counted(step.graph.node_count, 'node')}, {counted(problem.tensor_count, 'tensor')}",
        f"peak {both_bytes(int(step.live_bytes.max(initial=0)))} of live bytes",
        f"{1000 * step.seconds:.3f} ms on {step.rates.name} by floating-point operations and bytes",
        f"{again} may run again ({computing:.1%} of the time)",
    ]
    if (step.work.phase[step.first_late_node :] == FORWARD).any():
        parts.append("of several forward passes only the first is planned")
    beside = problem.origin.get("persistent_bytes")
    if type(beside) is int and beside > 0:
        what = "parameters, optimizer state and workspaces of libraries"
        parts.append(f"{human_bytes(beside)} of {what} are there besides")
    return f"{one_line(problem.name, MOST_SHOWN_NAME)}: {'; '.join(parts)}"


def point_line(step: RepeatableStep, point: FrontierPoint) -> str:
    """Return the line above the table of one limit."""
    peak = int(step.live_bytes.max(initial=0))
    share = point.limit / peak if peak else 1.0
    bound = (
        "no sequence is within it"
        if np.isinf(point.least_seconds)
        else f"at least {_extra(step, point.least_seconds)} more time"
    )
    return (
        f"limit {given_bytes(point.limit)}, {share:.1%} of the peak: {bound}, by "
        f"{certificate_of(point)}; bound {point.bound_seconds:.3f} s"
    )


def certificate_of(point: FrontierPoint) -> str:
    """Return the name of the proof of the best bound."""
    strongest = max(point.results, key=lambda result: result.least_seconds, default=None)
    if strongest is None or strongest.least_seconds <= point.bound.seconds:
        return point.bound.certificate
    return strongest.certificate


def point_table(step: RepeatableStep, point: FrontierPoint) -> Table:
    """Return the table of one limit, the fastest plan first."""
    best = point.best
    rows = []
    for result in sorted(point.results, key=_place):
        cells = _cells(step, point, result)
        is_best = best is not None and result.extra_seconds == best.extra_seconds
        rows.append(Row.best(cells) if is_best else Row(cells, style=STYLES.get(result.status, "")))
    return Table(COLUMNS, rows, is_marked=True, first_left_out=("sent", "runs\nagain"))


def curve_table(step: RepeatableStep, points: Sequence[FrontierPoint]) -> Table:
    """Return one line a limit: the bound, the best, and the extra time of every planner."""
    names = [result.planner for result in points[0].results] if points else []
    columns = [
        Column("limit"), Column("of the\npeak"), Column("bound"), Column("best"),
        Column("gap to\nbound"), *map(Column, names),
    ]  # fmt: skip
    peak = int(step.live_bytes.max(initial=0)) or 1
    rows = []
    for point in points:
        best = point.best
        least = point.least_seconds
        # A point that Ctrl-C ended lacks planners.
        extras = {result.planner: result.extra_seconds for result in point.results}
        extra = np.inf if best is None else best.extra_seconds
        rows.append(
            Row((
                human_bytes(point.limit),
                f"{point.limit / peak:.1%}",
                "none" if np.isinf(least) else _extra(step, least),
                _extra(step, extra),
                percent(step_gap(step, extra, least)),
                *(_extra(step, extras.get(name, np.inf)) for name in names),
            ))
        )  # fmt: skip
    return Table(columns, rows, turns=True)


def notes(points: Sequence[FrontierPoint]) -> list[str]:
    """Return the lines below a table: every reason once."""
    told: dict[str, list[str]] = {}
    for point in points:
        for result in point.results:
            if result.reason and result.status is not Status.NO_PLAN_FOUND:
                names = told.setdefault(f"{result.status.value}, {one_line(result.reason)}", [])
                if result.planner not in names:
                    names.append(result.planner)
    return [f"{', '.join(names)}: {reason}" for reason, names in told.items()]


def least_line(least: int, found: int | None) -> str:
    """Return the line on the smallest limit that can be met."""
    known = "" if found is None else f"; the lowest peak found is {both_bytes(found)}"
    return f"no limit below {both_bytes(least)} can be met, by staged-relaxation{known}"


def frontier_record(
    step: RepeatableStep, points: Sequence[FrontierPoint], least: int | None, file: str
) -> dict[str, Any]:
    """Return a frontier as plain values, every number exact."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "file": file,
        "instance": step.problem.name,
        "device": step.rates.name,
        "peak_live": int(step.live_bytes.max(initial=0)),
        "step_seconds": step.seconds,
        "least_limit": least,
        "points": [
            {
                "limit": point.limit,
                "least_extra_seconds": _finite(point.least_seconds),
                "certificate": certificate_of(point),
                "bound_seconds": point.bound_seconds,
                "results": [_result_fields(step, point, result) for result in point.results],
            }
            for point in points
        ],
    }


def _result_fields(
    step: RepeatableStep, point: FrontierPoint, result: LimitResult
) -> dict[str, Any]:
    return {
        "planner": result.planner,
        "status": result.status.value,
        "peak": None if result.plan is None else result.plan.peak,
        "extra_seconds": _finite(result.extra_seconds),
        "gap_to_bound": step_gap(step, result.extra_seconds, point.least_seconds),
        "runs_again": _runs_again(step, result)[0],
        "sent": _runs_again(step, result)[1],
        "seconds": result.seconds,
        "reason": result.reason,
        "statistics": dict(result.statistics),
    }


def _cells(step: RepeatableStep, point: FrontierPoint, result: LimitResult) -> tuple[str, ...]:
    again, sent = _runs_again(step, result)
    return (
        result.planner,
        result.status.value,
        "-" if result.plan is None else human_bytes(result.plan.peak),
        _extra(step, result.extra_seconds),
        percent(step_gap(step, result.extra_seconds, point.least_seconds)),
        "-" if again is None else f"{again:,}",
        "-" if sent is None else human_bytes(sent),
        f"{result.seconds:.3f}" if result.seconds < 10 else f"{result.seconds:.1f}",
    )


def _extra(step: RepeatableStep, seconds: float) -> str:
    return percent(_finite(step.share(seconds)))


def _runs_again(step: RepeatableStep, result: LimitResult) -> tuple[int | None, int | None]:
    """Return the number of second runs of nodes, and the bytes that are sent away."""
    if result.sequence is None:
        return None, None
    nodes, sent = step.graph.node_count, step.choice_of(result.sequence).sent > 0
    again = int((result.sequence < nodes).sum()) - nodes
    return again, int(step.problem.size[sent].sum())


def _place(result: LimitResult) -> tuple[int, float]:
    return RANKS.index(result.status) if np.isinf(result.extra_seconds) else 0, result.extra_seconds


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
