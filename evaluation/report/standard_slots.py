"""The slots that any study can show: what was run, tables of gaps, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.report.anytime_figure import anytime_curves, anytime_figure
from evaluation.report.drawing import Look, line_looks, picture_of
from evaluation.report.gap_tables import (
    by_instance,
    cell,
    failure_table,
    gap_table,
    instance_table,
    is_solved,
    online_table,
    planner_table,
    worst_table,
)
from evaluation.report.performance_profile import profile_figure, profile_lines
from evaluation.report.slots import PageMaterial, markdown_of, slot
from evaluation.report.time_figure import time_figure, timed_points
from planners.text.byte_units import counted


@slot("study-name")
def _study_name(material: PageMaterial) -> str:
    return cell(material.name)


@slot("question")
def _question(material: PageMaterial) -> str:
    return str(material.words.get("question", ""))


@slot("run-counts")
def _run_counts(material: PageMaterial) -> str:
    cases = material.cases
    instances = len({case.facts.digest for case in cases})
    planners = len({case.label for case in cases})
    runs = counted(len(material.records), "run")
    return f"{runs}: {counted(planners, 'planner')}, {counted(instances, 'instance')}"


@slot("made-on")
def _made_on(material: PageMaterial) -> str:
    """Return the days, machines, versions and commits of the records, each once."""
    days = sorted({f"{record.moment:%Y-%m-%d}" for record in material.records})
    machines = {str(record.machine): None for record in material.records}
    versions = {
        f"{name} {version}": None
        for record in material.records
        for name, version in record.versions.items()
    }
    commits = {f"commit {record.commit}": None for record in material.records if record.commit}
    day = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return "; ".join([day, *machines, ", ".join(versions), *commits])


@slot("planner-table")
def _planner_table(material: PageMaterial) -> str:
    return markdown_of(planner_table(material.cases))


@slot("gap-table")
def _gap_table(material: PageMaterial) -> str:
    return markdown_of(gap_table(material.cases))


@slot("instance-table")
def _instance_table(material: PageMaterial) -> str:
    return markdown_of(instance_table(material.cases))


@slot("solved-count")
def _solved_count(material: PageMaterial) -> str:
    instances = by_instance(material.cases).values()
    solved = sum(map(is_solved, instances))
    return f"Proven: {solved:,} of {counted(len(instances), 'instance')}." if instances else ""


@slot("worst-cases")
def _worst_cases(material: PageMaterial) -> str:
    return markdown_of(worst_table(material.cases))


@slot("failures")
def _failures(material: PageMaterial) -> str:
    return markdown_of(failure_table(material.records))


@slot("online-table")
def _online_table(material: PageMaterial) -> str:
    return markdown_of(online_table(material.cases))


@slot("performance-profile")
def _performance_profile(material: PageMaterial) -> str:
    lines = profile_lines(material.cases)
    if not lines:
        return ""
    says = f"Share of instances by the gap to the best known peak; best: {_first(list(lines))}"
    return picture_of(material, "profile", profile_figure(lines, _looks(material)), says)


@slot("time-figure")
def _time_figure(material: PageMaterial) -> str:
    points = timed_points(material.cases)
    if not points:
        return ""
    says = f"Processor time by the number of tensors; slowest: {_first(list(points))}"
    return picture_of(material, "time", time_figure(points, _looks(material)), says)


@slot("anytime-figure")
def _anytime_figure(material: PageMaterial) -> str:
    curves = anytime_curves(material.cases)
    if not curves:
        return ""
    says = f"Gap to the best known peak over time, on {_first(list(curves))} and others"
    return picture_of(material, "anytime", anytime_figure(curves, _looks(material)), says)


def _looks(material: PageMaterial) -> Mapping[str, Look]:
    return line_looks([case.label for case in material.cases])


def _first(labels: Sequence[str]) -> str:
    return labels[0]
