"""What the planner of a study was to reach, held against its worst run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evaluation.findings.homosize_quality import beside_public_code, times_faster
from evaluation.findings.recorded_problems import (
    GREEDY,
    OURS,
    RecordedProblem,
    quality_problems,
    recorded_problems,
    varying_traces,
)
from evaluation.report.figure_texts import percent
from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from planners.errors import InstanceError, near_names
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

Aim = Mapping[str, Any]
# The worst of some runs, and of how many; None where no run is about it.
Worst = tuple[float, int] | None


@slot("homosize-aims-table")
def _aims_table(material: PageMaterial) -> str:
    rows = []
    for aim in material.words.get("aim", ()):
        name = aim["figure"]
        if name not in _FIGURES:
            raise InstanceError(f"page.aim: no figure is called {name!r}; "
                                f"{near_names(name, _FIGURES)}")  # fmt: skip
        worst = _FIGURES[name](material, aim)
        if worst is None:
            continue
        found, problems = worst
        least, most = aim.get("at_least"), aim.get("at_most")
        text = percent if name.endswith("efficiency") else three_digits
        wanted = f"at least {text(least)}" if most is None else f"at most {text(most)}"
        reached = found >= least if most is None else found <= most
        rows.append(
            Row((cell(aim["says"]), wanted, str(problems), text(found), "yes" if reached else "no"))
        )
    headings = ("what", "aim", "problems", "worst run", "reached")
    return Table(columns_of(*headings), rows).markdown() if rows else ""


def _dense_efficiency(material: PageMaterial, _: Aim) -> Worst:
    problems = quality_problems(material.records)
    varying = varying_traces(problems)
    return _least_efficient([each for each in problems if each.trace not in varying])


def _static_efficiency(material: PageMaterial, _: Aim) -> Worst:
    return _least_efficient([each for each in quality_problems(material.records) if each.static])


def _least_efficient(problems: list[RecordedProblem]) -> Worst:
    shares = [problem.efficiency(OURS) or 0.0 for problem in problems]
    return (min(shares), len(shares)) if shares else None


def _times_faster(material: PageMaterial, _: Aim) -> Worst:
    ratios = [times_faster(*each) for each in beside_public_code(material)]
    return (min(ratios), len(ratios)) if ratios else None


def _seconds(material: PageMaterial, aim: Aim) -> Worst:
    most = aim["most_requests"]
    found = [
        problem.runs[OURS].worst_seconds
        for problem in recorded_problems(material.records)
        if OURS in problem.runs and problem.requests <= most
    ]
    return (max(found), len(found)) if found else None


def _megabytes(material: PageMaterial, _: Aim) -> Worst:
    found = [
        problem.runs[OURS].added_bytes / 1e6
        for problem in recorded_problems(material.records)
        if OURS in problem.runs
    ]
    return (max(found), len(found)) if found else None


def _peak_to_greedy(material: PageMaterial, _: Aim) -> Worst:
    found = []
    for problem in quality_problems(material.records):
        ours, greedy = problem.efficiency(OURS), problem.efficiency(GREEDY)
        if ours is not None and greedy is not None:
            found.append(greedy / ours)
    return (max(found), len(found)) if found else None


_FIGURES: Mapping[str, Callable[[PageMaterial, Aim], Worst]] = {
    "dense-efficiency": _dense_efficiency,
    "static-efficiency": _static_efficiency,
    "times-faster": _times_faster,
    "seconds": _seconds,
    "megabytes": _megabytes,
    "peak-to-greedy": _peak_to_greedy,
}
