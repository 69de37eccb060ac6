"""What a study planned of recordings: each problem with the runs of every planner on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from evaluation.study.record import ANSWERED, Record

HOMOSIZE, READING, GREEDY = "homosize", "paper-reading", "greedy-size-first"
OURS, PAPER, NO_FUSION, NO_PHASES = "homosize", "paper", "no fusion", "no phases"
TRACE_SUFFIX = ".npz"


@dataclass(frozen=True)
class PlannerRuns:
    """The runs of one planner on one problem."""

    records: Sequence[Record]

    @property
    def peak(self) -> int | None:
        """The highest peak; None where a run has no plan."""
        peaks = [record.peak for record in self.records if record.status in ANSWERED]
        known = [peak for peak in peaks if peak is not None]
        return max(known) if len(known) == len(self.records) else None

    @property
    def seconds(self) -> Sequence[float]:
        """Processor seconds of each run that ended."""
        found = (record.processor_seconds for record in self.records)
        return [seconds for seconds in found if seconds is not None]

    @property
    def worst_seconds(self) -> float:
        """Most processor seconds."""
        return max(self.seconds, default=0.0)

    @property
    def middle_seconds(self) -> float:
        """Median of the processor seconds."""
        return median(self.seconds) if self.seconds else 0.0

    @property
    def added_bytes(self) -> int:
        """The most memory that a run added."""
        return max((record.peak_resident_bytes or 0 for record in self.records), default=0)

    @property
    def ending(self) -> str:
        """How the last run ended."""
        return self.records[-1].status.value


@dataclass(frozen=True)
class RecordedProblem:
    """A problem, and who planned it, by name."""

    # The recording, the instance, or the family with its parameters.
    trace: str
    persistent: bool
    static: bool
    microbatches: int
    family: str | None
    requests: int
    bound: int
    runs: dict[str, PlannerRuns]

    def efficiency(self, planner: str) -> float | None:
        """Return the lower bound over the highest peak; None where there is no plan."""
        runs = self.runs.get(planner)
        if runs is None or runs.peak is None:
            return None
        return self.bound / runs.peak if runs.peak else 1.0


def recorded_problems(records: Sequence[Record]) -> list[RecordedProblem]:
    """Return the problems that records of plans tell of, in their order."""
    by_instance: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        if record.kind == "offsets":
            by_planner = by_instance.setdefault(record.instance, {})
            by_planner.setdefault(planner_of(record), []).append(record)
    return [_problem(instance, found) for instance, found in by_instance.items()]


def planner_of(record: Record) -> str:
    """Return what a planner is called on the page; each reading is one of its own."""
    if record.planner == READING:
        return record.label
    if record.planner != HOMOSIZE:
        return record.planner
    if record.parameters["variant"] == "best":
        return OURS
    if not record.parameters["fusion"]:
        return NO_FUSION
    return PAPER if record.parameters["phases"] else NO_PHASES


def _problem(instance: str, found: dict[str, list[Record]]) -> RecordedProblem:
    runs = {planner: PlannerRuns(records) for planner, records in found.items()}
    first = next(iter(runs.values())).records[0]
    name, *settings = instance.split(":")
    bounds = [record.bounds.values() for each in runs.values() for record in each.records]
    return RecordedProblem(
        trace=instance if first.family else name.removesuffix(TRACE_SUFFIX),
        persistent="persistent=false" not in settings,
        static="static=true" in settings,
        microbatches=int(dict(each.split("=") for each in settings).get("microbatches", 1)),
        family=first.family,
        requests=first.tensors,
        bound=max((max(values, default=0) for values in bounds), default=0),
        runs=runs,
    )


def quality_problems(records: Sequence[Record]) -> list[RecordedProblem]:
    """Return problems of recordings and instances as they are, those of one together."""
    found = [
        problem
        for problem in recorded_problems(records)
        if problem.family is None and problem.microbatches == 1 and OURS in problem.runs
    ]
    order = list(dict.fromkeys(problem.trace for problem in found))
    return sorted(found, key=lambda its: (order.index(its.trace), not its.persistent, its.static))


def varying_traces(problems: Sequence[RecordedProblem]) -> set[str]:
    """Return the recordings in which sizes vary: their static part is a problem of its own."""
    return {problem.trace for problem in problems if problem.static}
