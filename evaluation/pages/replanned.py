"""Makes plans of records again, to draw them: a record keeps a peak, and no offsets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evaluation.pages.cases import Case
from evaluation.pages.html_page import ReportMap
from evaluation.pages.memory_map import MappedPlan, memory_map
from evaluation.plots.plan_rectangles import require_time
from planners import bounds_of, get, read_problem, run
from planners.errors import GaplessError, UnknownPlannerError
from planners.files.problem_file import problem_digest
from planners.model.budget import Budget
from planners.text.byte_units import exact_bytes

# A plan that took longer is not made again.
MOST_SECONDS = 20.0


def map_of_file(path: Path, cases: Sequence[Case], name: str) -> ReportMap:
    """Return the map of an instance, with a plan for each of its cases."""
    problem = read_problem(path)
    require_time(problem)
    digest = problem_digest(problem)
    of_it = [case for case in cases if case.facts.digest == digest]
    if not of_it:
        known = {case.facts.instance for case in cases}
        raise GaplessError(
            f"--map {path}: an instance of the records is needed, found one of another digest; "
            f"they have {', '.join(sorted(known)[:10])}"
        )
    # The file says which capacity is meant, where records have several.
    facts = min((case.facts for case in of_it), key=lambda its: its.subject[2] != problem.capacity)
    placed = [case for case in of_it if case.facts == facts and case.has_plans and case.peak]
    quick = [case for case in placed if _seconds(case) <= MOST_SECONDS]
    if not quick:
        raise GaplessError(
            f"--map {path}: a plan that took at most {MOST_SECONDS:g} s is needed, found none"
        )
    bounds = bounds_of(problem)
    plans, notes = [], []
    for case in sorted(quick, key=lambda case: case.peak or 0):
        first = case.records[0]
        try:
            planner = get(first.planner, **first.parameters)
        except UnknownPlannerError as error:
            notes.append(f"{case.label}: {error}; --plugin names a file that registers planners")
            continue
        budget = Budget(first.budget_seconds, seed=first.seed)
        result = run(problem, planner, budget, bounds=bounds)
        if result.plan is None:
            notes.append(f"{case.label}: no plan this time")
            continue
        if result.plan.peak != first.peak:
            notes.append(
                f"{case.label}: a peak of {exact_bytes(result.plan.peak)} this time, where the "
                f"record has {exact_bytes(first.peak or 0)}"
            )
        plans.append(MappedPlan(case.label, result))
    if not plans:
        raise GaplessError(f"--map {path}: no plan was made again; {'; '.join(notes)}")
    left_out = [case.label for case in placed if case not in quick]
    if left_out:
        notes.append(f"not made again, for it took over {MOST_SECONDS:g} s: {', '.join(left_out)}")
    return ReportMap(facts.instance, notes, memory_map(problem, plans, bounds, name))


def _seconds(case: Case) -> float:
    return max(record.wall_seconds or 0.0 for record in case.records)
