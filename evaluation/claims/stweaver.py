"""Figures of the paper on STWeaver, of its own tables, of plans and of replays.

Source: Huang et al. 2026, sections 8.2 to 8.4 and tables 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from evaluation.claims.evidence import Evidence
from evaluation.claims.replayed_run import (
    CACHING,
    EXPANDABLE,
    GMLAKE,
    PLANNED,
    STATIC_PLAN,
    STWEAVER,
    ReplayedRun,
    efficiency_of,
    fragmentation_of,
    measured,
    reserved_to,
    share_taken,
)
from evaluation.claims.stweaver_tables import PUBLISHED_PLAN_SECONDS
from evaluation.claims.training_loops import EVERY_MIXTURE, LOOPS
from evaluation.study.record import ANSWERED, Record

PLANNER, PUBLISHED_VARIANT, OURS = "homosize", "paper", "best"
# Last iterations of training loops, as the catalogue has them.
DENSE = ("trace-bert-base", "trace-gpt2-medium", "trace-llama-1b", "trace-resnet-50",
         "trace-vit-base")  # fmt: skip


@dataclass(frozen=True)
class PlannedTrace:
    """What the published planner and ours made of one problem, by variant."""

    bound: int
    peaks: Mapping[str, int] = field(default_factory=dict)
    # Seconds to plan.
    seconds: Mapping[str, float] = field(default_factory=dict)

    def efficiency(self, variant: str) -> float | None:
        """Return the lower bound over the peak; 1 is a proven optimum."""
        return self.bound / self.peaks[variant] if self.peaks.get(variant) else None


def planned_traces(records: Sequence[Record]) -> dict[str, PlannedTrace]:
    """Return the problems that the planner of the paper was run on, by instance."""
    by_instance: dict[str, list[Record]] = {}
    for record in records:
        if record.kind == "offsets" and record.planner == PLANNER and record.status in ANSWERED:
            by_instance.setdefault(record.instance, []).append(record)
    return {name: _planned(runs) for name, runs in by_instance.items()}


def _planned(runs: Sequence[Record]) -> PlannedTrace:
    peaks: dict[str, int] = {}
    seconds: dict[str, list[float]] = {}
    for run in runs:
        variant = str(run.parameters["variant"])
        peaks[variant] = max(run.peak or 0, peaks.get(variant, 0))
        if run.processor_seconds is not None:
            seconds.setdefault(variant, []).append(run.processor_seconds)
    bound = max(max(run.bounds.values(), default=0) for run in runs)
    return PlannedTrace(bound, peaks, {name: median(each) for name, each in seconds.items()})


def planned_sizes(records: Sequence[Record]) -> dict[str, PlannedTrace]:
    """Return synthetic runs with as many requests as the paper's, by its name of the run."""
    found = {
        record.tensors: record.instance
        for record in records
        if record.family == "training-trace" and record.planner == PLANNER
    }
    traces = planned_traces(records)
    return {
        name: traces[found[requests]]
        for name, requests, _ in PUBLISHED_PLAN_SECONDS
        if found.get(requests) in traces
    }


def published_sizes() -> dict[str, PlannedTrace]:
    """Return what the paper's planner took."""
    return {
        name: PlannedTrace(0, {}, {PUBLISHED_VARIANT: seconds})
        for name, _, seconds in PUBLISHED_PLAN_SECONDS
    }


def share_of_static_plan(run: ReplayedRun) -> float | None:
    """Return how much of what all of STWeaver takes away of fragmentation its plan alone does."""
    alone = share_taken(STATIC_PLAN, CACHING)(run)
    whole = share_taken(STWEAVER, CACHING)(run)
    return None if alone is None or not whole else alone / whole


STWEAVER_EVIDENCE = (
    Evidence(
        cases=DENSE,
        measured=planned_traces,
        figures={"plan-efficiency": lambda trace: trace.efficiency(PUBLISHED_VARIANT)},
    ),
    Evidence(
        cases=tuple(name for name, _, _ in PUBLISHED_PLAN_SECONDS),
        measured=planned_sizes,
        published=published_sizes(),
        figures={"plan-seconds": lambda trace: trace.seconds.get(PUBLISHED_VARIANT)},
    ),
    Evidence(
        cases=LOOPS,
        measured=measured(LOOPS),
        figures={
            "dense-efficiency": efficiency_of(STWEAVER),
            "dense-caching-efficiency": efficiency_of(CACHING),
            "dense-expandable-efficiency": efficiency_of(EXPANDABLE),
            "dense-gmlake-efficiency": efficiency_of(GMLAKE),
            "dense-taken-from-caching": share_taken(STWEAVER, CACHING),
            "dense-taken-from-gmlake": share_taken(STWEAVER, GMLAKE),
            "dense-taken-from-expandable": share_taken(STWEAVER, EXPANDABLE),
        },
    ),
    Evidence(
        cases=EVERY_MIXTURE,
        measured=measured(EVERY_MIXTURE),
        figures={
            "efficiency": efficiency_of(STWEAVER),
            "to-expandable": reserved_to(STWEAVER, EXPANDABLE),
            "expandable-to": reserved_to(EXPANDABLE, STWEAVER),
            "to-caching": reserved_to(STWEAVER, CACHING),
            "planned-to": reserved_to(PLANNED, STWEAVER),
            "caching-to-gmlake": reserved_to(CACHING, GMLAKE),
            "taken-from-caching": share_taken(STWEAVER, CACHING),
            "taken-from-gmlake": share_taken(STWEAVER, GMLAKE),
            "taken-from-expandable": share_taken(STWEAVER, EXPANDABLE),
            "static-plan-takes": share_taken(STATIC_PLAN, CACHING),
            "share-of-static-plan": share_of_static_plan,
            "reuse-to-none": reserved_to(STWEAVER, STATIC_PLAN),
            "reuse-takes": share_taken(STWEAVER, STATIC_PLAN),
            "expandable-fragmentation": fragmentation_of(EXPANDABLE),
        },
    ),
)
