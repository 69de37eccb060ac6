"""The best plan known of an instance: looked for with the planners, and held against the record."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

from instances.catalogue.catalogue_entry import CONSTRUCTION, Best, Facts
from instances.catalogue.catalogue_file import FOLDER
from planners.compare.comparison import Comparison, compare_planners
from planners.errors import GaplessError
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.model.problem import Problem
from planners.registry import choose

GREEDY = "greedy-*,many-objects-*,pressure"
DEFAULT_PLANNERS = f"{GREEDY},auto"
DEFAULT_TIME_LIMIT_SECONDS = 5.0


def find_best(
    problem: Problem,
    facts: Facts,
    planners: str = DEFAULT_PLANNERS,
    seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    *,
    on_start: Callable[[int, str], None] = lambda _index, _label: None,
) -> Best:
    """Run planners on an instance, whatever its capacity, and return the best plan."""
    asked = problem.with_capacity(None)
    budget = Budget(time_limit_seconds=seconds)
    comparison = compare_planners(asked, choose(planners), budget, on_start=on_start)
    if comparison.interrupted:
        raise KeyboardInterrupt
    _require_valid(comparison)
    if comparison.best is None:
        raise GaplessError(f"{problem.name}: no planner found a plan within {seconds:g} s")
    result = comparison.best.result
    assert result.peak is not None
    best = Best(
        peak=result.peak,
        status=result.status.value,
        lower_bound=result.lower_bound,
        certificate=result.certificate,
        planner=comparison.best.label,
        version=version("gapless"),
        commit=git_commit(),
    )
    return _with_construction(problem.name, best, facts)


def merge(recorded: Best, found: Best) -> Best:
    """Return what is known after another search: the plan of the lower peak, the higher bound."""
    best = found if found.peak < recorded.peak else recorded
    other = recorded if best is found else found
    if other.lower_bound > best.lower_bound:
        best = replace(best, lower_bound=other.lower_bound, certificate=other.certificate)
    proven = best.peak == best.lower_bound
    return replace(best, status=(Status.OPTIMAL if proven else Status.FEASIBLE).value)


def git_commit() -> str:
    """Return the commit of the sources, with ``+changes`` where the planners differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(FOLDER.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        return f"{commit}+changes" if git("status", "--porcelain", "--", "planners") else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _require_valid(comparison: Comparison) -> None:
    for row in comparison.rows:
        if row.result.status is Status.INVALID:
            name = comparison.problem.name
            raise GaplessError(f"{name}: {row.label} is invalid: {row.result.reason}")


def _with_construction(name: str, best: Best, facts: Facts) -> Best:
    if facts.optimum is None:
        return best
    if best.peak < facts.optimum or best.lower_bound > facts.optimum:
        raise GaplessError(
            f"{name}: the optimum by construction is {facts.optimum} bytes, and {best.planner} "
            f"has a plan of {best.peak}, {best.certificate} a bound of {best.lower_bound}"
        )
    if best.lower_bound == facts.optimum:
        return best
    known = replace(best, lower_bound=facts.optimum, certificate=CONSTRUCTION)
    return merge(known, known)
