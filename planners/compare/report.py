"""A comparison for people: the instance in one line, the table, and notes below it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from planners.compare.comparison import (
    Answer,
    CapacityVerdict,
    Comparison,
    ComparisonRow,
    ReferenceRow,
)
from planners.model.places import used_bytes
from planners.model.plan import Result, Status
from planners.model.problem import Problem
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.reorder.reordering import Reordering
from planners.text.byte_units import both_bytes, counted, exact_bytes, given_bytes, human_bytes
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table

COLUMNS = (
    Column("planner", is_left=True, wraps=True), Column("status", is_left=True), Column("peak"),
    Column("bytes"), Column("gap to\nbound"), Column("gap to\nbest"), Column("seconds"),
)  # fmt: skip
# Of problems with prices of reuse.
COST = (Column("cost"), Column("gap to\ncost bound"))
REFERENCE_MARK = "~"
NOT_SINCE_THE_START = "bytes reserved before the recording are not known"
REFERENCE_STYLE = "dim italic"
STYLES = {
    Status.INVALID: "bold red",
    Status.UNSUPPORTED: "dim",
    Status.NO_PLAN_FOUND: "yellow",
    Status.INFEASIBLE: "yellow",
}
# The order of rows that are sorted by status, best first.
RANKS = [
    Status.OPTIMAL, Status.FEASIBLE, Status.INFEASIBLE, Status.NO_PLAN_FOUND, Status.UNSUPPORTED,
    Status.INVALID,
]  # fmt: skip


class SortBy(enum.StrEnum):
    """The column by which the rows of a table are sorted."""

    PEAK = "peak"
    COST = "cost"
    GAP = "gap"
    STATUS = "status"
    PLANNER = "planner"
    SECONDS = "seconds"
    CPU_SECONDS = "cpu-seconds"
    CHOSEN = "chosen"


SORT_KEYS: dict[SortBy, Callable[[ComparisonRow], Any]] = {
    SortBy.PEAK: lambda row: _last_without(row.result.peak if row.result.valid else None),
    SortBy.COST: lambda row: _last_without(row.result.cost if row.result.valid else None),
    SortBy.GAP: lambda row: _last_without(row.gap_to_bound),
    SortBy.STATUS: lambda row: RANKS.index(row.result.status),
    SortBy.PLANNER: lambda row: row.label,
    SortBy.SECONDS: lambda row: row.result.seconds,
    SortBy.CPU_SECONDS: lambda row: row.result.cpu_seconds,
    SortBy.CHOSEN: lambda _row: 0,
}


def sorted_rows(comparison: Comparison, by: SortBy | None = None) -> list[ComparisonRow]:
    """Return the rows of a comparison in the order in which they are shown."""
    best_first = SortBy.COST if comparison.problem.cost_decides else SortBy.PEAK
    return sorted(comparison.rows, key=SORT_KEYS[by or best_first])


def instance_line(comparison: Comparison) -> str:
    """Return the line above the table: the instance, its unsafe pairs, naive sum and bounds."""
    problem = comparison.problem
    counts = [
        counted(problem.tensor_count, "tensor"),
        counted(problem.stream_count, "stream"),
        counted(len(problem.contiguous), "chain"),
    ]
    if problem.dynamic is not None and problem.dynamic.any():
        counts.insert(1, f"{problem.dynamic.sum():,} of them dynamic")
    parts = [", ".join(counts)]
    if comparison.unsafe_share is not None:
        parts.append(f"{percent(comparison.unsafe_share)} of pairs unsafe")
    parts.append(f"naive sum {both_bytes(problem.naive_bytes)}")
    if problem.memories:
        parts += [f"{memory.name} {both_bytes(memory.capacity)}" for memory in problem.memories]
    else:
        bounds = [f"{bound.name} {both_bytes(bound.bytes)}" for bound in comparison.bounds]
        parts.append(f"bounds: {', '.join(bounds)}")
    if problem.capacity is not None:
        parts.append(f"capacity {given_bytes(problem.capacity)}")
    parts.append(
        f"safety {comparison.safety_seconds:.3f} s, bounds {comparison.bounds_seconds:.3f} s"
    )
    if comparison.reordering is not None:
        parts.insert(0, _order_in_words(comparison.reordering))
    return f"{one_line(problem.name, MOST_SHOWN_NAME)}: {'; '.join(parts)}"


def _order_in_words(found: Reordering) -> str:
    given, saved = both_bytes(found.given_bound.bytes), both_bytes(found.saved_bytes)
    return f"in another order ({found.status.value}), {saved} below the {given} of the given one"


def comparison_table(comparison: Comparison, rows: Sequence[ComparisonRow]) -> Table:
    """Return the table; the last line is the reference, if the problem has one."""
    problem = comparison.problem
    is_priced = bool(len(problem.reuse_prices) or problem.memories)
    lines = []
    for row in rows:
        cells = _cells(problem, row, is_priced)
        style = STYLES.get(row.result.status, "")
        lines.append(Row.best(cells) if is_best(comparison, row) else Row(cells, style=style))
    if comparison.reference_row is not None:
        cells = _reference_cells(comparison.reference_row, is_priced)
        lines.append(Row(cells, REFERENCE_MARK, REFERENCE_STYLE))
    columns: Sequence[Column] = COLUMNS
    if is_priced:
        columns = (*COLUMNS[:2], *COST, *COLUMNS[2:])
    if problem.memories:
        names = (one_line(memory.name, MOST_SHOWN_NAME) for memory in problem.memories)
        columns = (*COLUMNS[:2], *COST, *map(Column, names), COLUMNS[-1])
    return Table(columns, lines, is_marked=True, first_left_out=("peak",))


def notes(comparison: Comparison, rows: Sequence[ComparisonRow]) -> list[str]:
    """Return the lines below the table: the bound of the gaps, every reason once, the verdict."""
    lines = []
    best = comparison.best
    if best is not None:
        result = best.result
        if not comparison.problem.memories:
            least = both_bytes(result.lower_bound)
            lines.append(f"gap to bound: above {result.certificate}, {least}")
        if result.cost_certificate:
            lines.append(
                f"gap to cost bound: above {result.cost_certificate}, {result.cost_bound:,}"
            )
    if comparison.reference is not None:
        lines.append(f"{REFERENCE_MARK} no plan: {about_reference(comparison)}")
    verdict = comparison.verdict
    told: dict[str, list[str]] = {}
    for row in rows:
        said = [_beside_the_verdict(row.result, verdict)]
        if row.result.claim is not None:
            said.append(f"{row.result.claim}, which no planner of Gapless confirms")
        reason = "; ".join(filter(None, said))
        if reason:
            told.setdefault(f"{row.result.status.value}, {reason}", []).append(row.label)
    lines += [f"{', '.join(labels)}: {reason}" for reason, labels in told.items()]
    if comparison.left_out:
        lines.append(f"interrupted; not run: {', '.join(comparison.left_out)}")
    if verdict is not None:
        lines.append(f"{one_line(comparison.problem.name, MOST_SHOWN_NAME)}: {_in_words(verdict)}")
    return lines


def about_reference(comparison: Comparison) -> str:
    """Return a sentence on the reference of a comparison, with the reasons to doubt it."""
    row = comparison.reference_row
    if row is None:
        return ""
    what = f"bytes that {row.reference.allocator} had reserved at the peak of the recorded run"
    if row.below_lifetime_bound:
        rounded = comparison.problem.origin.get("round_to", 1) != 1
        late = not (rounded and row.reference.exact)
        causes = ["the recording began after memory had been reserved"] * late
        causes += ["sizes are rounded up here"] * rounded
        return f"{what}; no gap, because this is below the lifetime bound: {', or '.join(causes)}"
    return what if row.reference.exact else f"{what}; {NOT_SINCE_THE_START}"


def is_best(comparison: Comparison, row: ComparisonRow) -> bool:
    """Return True if no valid plan that fits is better than that of a row."""
    best = comparison.best
    return (
        best is not None
        and row.result.status in (Status.OPTIMAL, Status.FEASIBLE)
        and comparison.rank_of(row) == comparison.rank_of(best)
    )


def percent(ratio: float | None) -> str:
    """Return a ratio as percent; a ratio above 0 is never shown as 0 %."""
    if ratio is None:
        return "-"
    if ratio == 0:
        return "0 %"
    if 0 < ratio < 0.00001:
        return "<0.001 %"
    return f"{100 * ratio:.3f} %" if ratio < 1 else f"{100 * ratio:,.1f} %"


def _cells(problem: Problem, row: ComparisonRow, is_priced: bool) -> tuple[str, ...]:
    result = row.result
    # The peak of an invalid plan means nothing, so it is not shown.
    plan = result.plan if result.valid else None
    if problem.memories:
        used = [] if plan is None else used_bytes(problem, plan.offsets)
        peaks = [human_bytes(bytes_) for bytes_ in used] or ["-"] * len(problem.memories)
    else:
        peaks = ["-"] * 2 if plan is None else [human_bytes(plan.peak), exact_bytes(plan.peak)]
        peaks += [percent(row.gap_to_bound), percent(row.gap_to_best)]
    return (
        row.label,
        result.status.value,
        *([_cost(result), percent(row.gap_to_cost_bound)] if is_priced else []),
        *peaks,
        f"{result.seconds:.3f}" if result.seconds < 10 else f"{result.seconds:.1f}",
    )


def _cost(result: Result) -> str:
    return f"{result.cost:,}" if result.valid and result.cost is not None else "-"


def _reference_cells(row: ReferenceRow, is_priced: bool) -> tuple[str, ...]:
    return (
        row.reference.label,
        "-",
        *(["-"] * len(COST) if is_priced else []),
        human_bytes(row.reference.reserved),
        exact_bytes(row.reference.reserved),
        percent(row.gap_to_bound),
        percent(row.gap_to_best),
        "-",
    )


def _in_words(verdict: CapacityVerdict) -> str:
    said = {
        Answer.FITS: f"fits, shown by {verdict.by}",
        Answer.DOES_NOT_FIT: f"does not fit, proven by {verdict.by}",
        Answer.NOT_KNOWN: "not known whether it fits",
    }
    return f"{said[verdict.answer]}: {one_line(verdict.because)}"


def _beside_the_verdict(result: Result, verdict: CapacityVerdict | None) -> str:
    """Return the reason of a result, less the part that the verdict or the peak states."""
    proven = verdict is not None and verdict.answer is Answer.DOES_NOT_FIT
    if proven and result.status is Status.INFEASIBLE:
        return ""
    is_over = result.status is Status.NO_PLAN_FOUND and result.plan is not None
    return one_line(result.said or "" if is_over else result.reason)


def _last_without(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0
