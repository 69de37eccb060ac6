"""``compare FILE --frontier N``: what plans of a problem with prices cost, from peak to peak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from planners.command_line.ending import EXIT_INTERRUPTED
from planners.compare.report import percent
from planners.errors import GaplessError, InstanceError
from planners.judged_run import run, solve
from planners.model.budget import Budget
from planners.model.plan import Result, gap_above
from planners.model.problem import Problem
from planners.processes import standard_output
from planners.processes.interrupt import Interrupt
from planners.text.byte_units import both_bytes, exact_bytes, human_bytes
from planners.text.progress_line import show_progress
from planners.text.table import Column, Row, Table

PLANNER = "auto"
COLUMNS = (
    Column("capacity"), Column("bytes"), Column("status", is_left=True), Column("cost"),
    Column("cost\nbound"), Column("gap to\ncost bound"), Column("seconds"),
)  # fmt: skip


def cost_frontier(problem: Problem, count: int, budget: Budget) -> Iterator[tuple[int, Result]]:
    """Yield so many capacities, falling, and the judged plan within each that costs least.

    They lie evenly between the peak of a plan without any reuse that has a price, whose cost is 0,
    and the least peak that the planner finds whatever it costs.
    """
    if problem.memories or not len(problem.reuse_prices):
        raise InstanceError(f"{problem.name}: a frontier needs prices of reuse, and one memory")
    if not 2 <= count <= 1000:
        raise GaplessError(f"--frontier: 2 to 1000 capacities are needed, found {count}")
    free = problem.with_capacity(None)
    everything, pairs = range(problem.tensor_count), problem.reuse_prices[:, :2]
    priced = {tuple(sorted(pair)) for pair in pairs.tolist()}
    others = [pair for pair in problem.exclusive.tolist() if tuple(sorted(pair)) not in priced]
    apart = np.concatenate((problem.apart, pairs))
    costless = free.select(everything, reuse_prices=[], apart=apart, exclusive=others)
    most, least = (solve(each, PLANNER, budget).peak for each in (costless, free))
    for capacity in np.unique(np.linspace(least, most, count).astype(np.int64))[::-1].tolist():
        yield capacity, run(problem.with_capacity(capacity), PLANNER, budget)


def show_frontier(
    problem: Problem, file: Path, count: int, budget: Budget, *, as_json: bool
) -> int:
    """Find and show the frontier of a problem, and return the exit status."""
    points, is_interrupted = standard_output.kept_until_ctrl_c(_points(problem, count, budget))
    if as_json:
        fields = {"file": str(file), "instance": problem.name, "points": _records(points)}
        standard_output.write(json.dumps(fields, indent=1) + "\n")
    else:
        standard_output.write_table(_table(points), "", "")
    return EXIT_INTERRUPTED if is_interrupted else 0


def _points(problem: Problem, count: int, budget: Budget) -> Iterator[tuple[int, Result]]:
    for capacity, result in cost_frontier(problem, count, budget):
        yield capacity, result
        show_progress(f"{problem.name}: {both_bytes(capacity)}, cost {result.cost}")
        if Interrupt.has_come():
            raise KeyboardInterrupt


def _records(points: Sequence[tuple[int, Result]]) -> list[dict[str, object]]:
    names = ("peak", "cost", "cost_bound", "cost_certificate", "seconds")
    return [
        {"capacity": capacity, "status": result.status.value}
        | {name: getattr(result, name) for name in names}
        for capacity, result in points
    ]


def _table(points: Sequence[tuple[int, Result]]) -> Table:
    rows = []
    for capacity, result in points:
        bound = result.cost_bound
        gap = gap_above(result.cost, bound)
        cost = "-" if result.cost is None else f"{result.cost:,}"
        cells = (
            human_bytes(capacity), exact_bytes(capacity), result.status.value, cost, f"{bound:,}",
            percent(gap), f"{result.seconds:.3f}",
        )  # fmt: skip
        rows.append(Row.best(cells) if gap == 0 else Row(cells))
    return Table(COLUMNS, rows, is_marked=True, first_left_out=("capacity", "seconds"))
