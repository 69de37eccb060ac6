"""How far the planners without parameters come: gap, what met the bound, and what it cost."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from evaluation.benchmarks.measure import progress
from evaluation.benchmarks.page import Page, seconds
from planners import Bound, Budget, Problem, Result, Status, bounds_of, get, read_any, run

Contestant = Callable[[Problem, Budget], Result]
"""Plans a problem; the result has been through the referee and says what it cost."""


def planner(name: str) -> Contestant:
    """Return one of our planners as a contestant."""
    return partial(run, get(name))


# Another tool takes part with an entry here.
CONTESTANTS: dict[str, Contestant] = {name: planner(name) for name in ("pressure", "auto")}


def auto_page(files: Sequence[Path], command: str, seeds: int, time_limit_seconds: float) -> Page:
    """Run every contestant on every file, with several seeds.

    Parameters
    ----------
    files
        Instances of any format.
    command
        For the page.
    seeds
        Runs of each, with the seeds from 0 on.
    time_limit_seconds
        Wall-clock limit of a run.

    Returns
    -------
    Page
        One row an instance.
    """
    page = Page("Proofs without parameters", command)
    page.say(
        "How far each planner comes without parameters, and what met the bound or made the best "
        "plan. Processor seconds are the median over the seeds "
        f"0 to {seeds - 1} and, in brackets, the worst; they hold everything from the arrays of "
        "the problem on: bounds, safety, search. Gaps are to the best bound named, the worst over "
        f"the seeds; 0 % is a proof. A run may take {time_limit_seconds:g} seconds."
    )
    headers = ["instance", "tensors", "bound"]
    for label in CONTESTANTS:
        headers += [f"{label}: gap", "by", "seconds"]
    page.table(headers, [_row(path, seeds, time_limit_seconds) for path in files])
    return page


def _row(path: Path, seeds: int, time_limit_seconds: float) -> list[str]:
    problem = read_any(path)
    bound = max(bounds_of(problem), key=lambda known: known.bytes)
    cells = [path.name, f"{problem.tensor_count:,}", f"{bound.bytes:,} ({bound.name})"]
    for label, contestant in CONTESTANTS.items():
        progress(f"{path.name}: {label}")
        # Read anew for each run: a problem keeps what was once computed of it.
        results = [
            contestant(read_any(path), Budget(time_limit_seconds=time_limit_seconds, seed=seed))
            for seed in range(seeds)
        ]
        cells += _cells(results, bound)
    return cells


def _cells(results: Sequence[Result], bound: Bound) -> list[str]:
    worst = max(results, key=lambda result: (result.peak is None, result.peak or 0))
    cost = [result.cpu_seconds for result in results]
    took = f"{seconds(statistics.median(cost))} ({seconds(max(cost))})"
    if worst.peak is None or worst.status in (Status.INVALID, Status.UNSUPPORTED):
        return [worst.status.value, "-", took]
    lower = max(bound.bytes, worst.lower_bound)
    gap = f"{worst.peak / lower - 1:.4%}" if worst.peak > lower else "0 %"
    found_by = worst.statistics.get("found_by") or worst.statistics.get("order") or "-"
    return [gap, str(found_by), took]
