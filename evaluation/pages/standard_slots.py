"""The slots that any study can show: counts of runs, machines and versions, and figures."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from statistics import mean

from matplotlib.figure import Figure

from evaluation.pages.error_figure import error_figure, error_lines
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.planner_figures import (
    anytime_curves,
    anytime_figure,
    profile_figure,
    profile_lines,
    time_figure,
    timed_points,
)
from evaluation.plots.drawing import Look, bytes_of, line_looks
from evaluation.study.record import InstanceRecord, RunStatus
from planners.text.byte_units import counted, three_digits
from planners.text.plain_text import markdown_text
from planners.text.table import Row, Table, columns_of


def _study_name(material: PageMaterial) -> str:
    return markdown_text(material.name)


def _question(material: PageMaterial) -> str:
    return str(material.words.get("question", ""))


def _run_counts(material: PageMaterial) -> str:
    instances = len({case.facts.subject for case in material.cases})
    return f"{counted(len(material.records), 'run')} of {counted(instances, 'instance')}"


def _made_on(material: PageMaterial) -> str:
    """Return the days, machines, versions and commits of the records, each once."""
    days = sorted({f"{record.moment:%Y-%m-%d}" for record in material.records})
    machines = {str(record.machine): None for record in material.records}
    versions = {
        f"{name} {version}": None
        for record in material.records
        for name, version in record.versions.items()
    }
    commits = {f"commit {record.commit or 'unknown'}": None for record in material.records}
    day = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return "; ".join([day, *machines, ", ".join(versions), *commits])


def _solved_count(material: PageMaterial) -> str:
    """Return the number of instances whose optimum, or lack of any plan, is proven."""
    cases = [case for case in material.cases if case.has_plans]
    instances = {case.facts.subject for case in cases}
    solved = {
        case.facts.subject
        for case in cases
        if case.facts.optimum is not None or case.status is RunStatus.INFEASIBLE
    }
    counts = f"{len(solved):,} of {counted(len(instances), 'instance')}"
    return f"Proven: {counts}." if instances else ""


def _performance_profile(material: PageMaterial) -> str:
    lines = profile_lines(material.cases)
    if not lines:
        return ""
    first = next(iter(lines))
    says = f"Share of instances by the gap to the best known peak; best most often: {first}"
    return picture_of(material, "profile", profile_figure(lines, _looks(material)), says)


def _time_figure(material: PageMaterial) -> str:
    points = timed_points(material.cases)
    if not points:
        return ""
    figure = time_figure(points, _looks(material))
    return picture_of(material, "time", figure, "Processor time by the number of tensors")


def _anytime_figure(material: PageMaterial) -> str:
    curves = anytime_curves(material.cases)
    if not curves:
        return ""
    says = f"Gap to the best known peak over time, on {next(iter(curves))} and others"
    return picture_of(material, "anytime", anytime_figure(curves, _looks(material)), says)


def _error_figure(material: PageMaterial) -> str:
    lines = error_lines(material.records)
    if not lines:
        return ""
    says = f"Share of trainings by the error of reserved bytes; first: {next(iter(lines))}"
    return picture_of(material, "errors", error_figure(lines), says)


def picture_of(material: PageMaterial, name: str, figure: Figure, says: str) -> str:
    """Keep a figure as PNG, which the page shows, and as SVG and PDF beside it."""
    material.picture(name, bytes_of(figure, "svg"), says, "svg")
    material.picture(name, bytes_of(figure, "pdf"), says, "pdf")
    return material.picture(name, bytes_of(figure, "png"), says)


def _looks(material: PageMaterial) -> Mapping[str, Look]:
    return line_looks([case.label for case in material.cases])


HEADINGS = (
    "instance", "tensors", "runs", "planner ms", "run ms beside it", "to a second",
    "10^6 runs, hours of a core", "record bytes", "gzipped",
)  # fmt: skip
SECONDS_PER_HOUR = 3600


def _overhead_table(material: PageMaterial) -> str:
    by_instance: dict[str, list[InstanceRecord]] = {}
    for record in material.records:
        if isinstance(record, InstanceRecord):
            by_instance.setdefault(record.instance, []).append(record)
    rows = [Row(_cells(records)) for records in by_instance.values() if len(records) > 1]
    return Table(columns_of(*HEADINGS), rows).markdown() if rows else ""


def _cells(records: Sequence[InstanceRecord]) -> list[str]:
    moments = [record.moment for record in records]
    # The time from the first beginning to the last one covers all runs but one.
    between = len(records) - 1
    planning = mean(record.wall_seconds or 0.0 for record in records)
    beside = (max(moments) - min(moments)).total_seconds() / between - planning
    lines = [f"{record.to_json()}\n".encode() for record in records]
    packed = gzip.compress(b"".join(lines), mtime=0)
    return [
        records[0].instance,
        f"{records[0].tensors:,}",
        f"{len(records):,}",
        three_digits(1e3 * planning),
        three_digits(1e3 * beside),
        f"±{three_digits(1e3 / between)}",
        f"{1e6 * beside / SECONDS_PER_HOUR:.1f}",
        f"{mean(map(len, lines)):,.0f}",
        f"{len(packed) / len(records):,.0f}",
    ]


STANDARD_SLOTS = {
    "study-name": _study_name,
    "question": _question,
    "run-counts": _run_counts,
    "made-on": _made_on,
    "solved-count": _solved_count,
    "performance-profile": _performance_profile,
    "time-figure": _time_figure,
    "anytime-figure": _anytime_figure,
    "error-figure": _error_figure,
    "overhead-table": _overhead_table,
}
