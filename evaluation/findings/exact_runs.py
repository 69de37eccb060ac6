"""Exact planners asked one question: what each answered once a seed, and at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from evaluation.study.instance_name import settings_in
from evaluation.study.record import ANSWERED, Record, RunStatus

OURS: Final = "branch-and-bound"
PEER: Final = "omnimalloc"
# These end at a limit, or would go on if it were larger.
OPEN: Final = (RunStatus.FEASIBLE, RunStatus.NO_PLAN_FOUND, RunStatus.TIMED_OUT)
NO_ANSWER: Final = "-"


@dataclass(frozen=True)
class ExactRuns:
    """What one planner answered to one question, once a seed or repetition."""

    records: tuple[Record, ...]
    # Bytes: does a plan fit? None: what is the smallest peak?
    capacity: int | None

    @property
    def settled_count(self) -> int:
        """How many answers are final: yes or no to a capacity, without one an optimum."""
        return sum(map(self._settles, self.records))

    @property
    def settled(self) -> bool:
        """Whether every answer is final."""
        return self.settled_count == len(self.records)

    @property
    def broken(self) -> RunStatus | None:
        """How a run ended that neither settled the question nor spent its time on it."""
        statuses = [
            record.status
            for record in self.records
            if not self._settles(record) and record.status not in OPEN
        ]
        # One wrong plan counts more than any number of missing ones.
        return max(statuses, key=lambda status: status is RunStatus.INVALID, default=None)

    @property
    def seconds(self) -> float:
        """Median processor seconds."""
        return median(map(seconds_of, self.records))

    @property
    def worst_seconds(self) -> float:
        """Most processor seconds."""
        return max(map(seconds_of, self.records))

    @property
    def nodes(self) -> list[int]:
        """The nodes of each search."""
        return [nodes_of(record) for record in self.records]

    def _settles(self, record: Record) -> bool:
        if self.capacity is None:
            return record.status is RunStatus.OPTIMAL
        return record.status in (*ANSWERED, RunStatus.INFEASIBLE)


@dataclass(frozen=True)
class Question:
    """One instance, and what is asked of it."""

    instance: str
    capacity: int | None
    # The variation that made it, and the rule that the search does without; empty for none.
    variation: str = ""
    rule_left_out: str = ""


def asked(record: Record) -> Question:
    """Return what a run was asked."""
    name, settings = settings_in(record.instance)
    capacity = settings.get("capacity")
    left_out = [key for key, value in record.parameters.items() if value is False]
    # Problems of one family that differ by their seed alone are asked together, like variants.
    family = [
        f"{key}={value}"
        for key, value in settings.items()
        if key not in ("capacity", "variation", "seed")
    ]
    return Question(
        ", ".join([name, *family]),
        None if capacity is None else int(capacity),
        settings.get("variation", ""),
        ", ".join(left_out),
    )


def runs_by_question(records: Iterable[Record]) -> dict[Question, ExactRuns]:
    """Return the runs of our planner by what they were asked, in the order of the records."""
    return exact_runs(record for record in records if record.planner == OURS)


def peers_by_threads(records: Iterable[Record]) -> dict[int, dict[Question, ExactRuns]]:
    """Return the runs of the peer by its threads, and by what they were asked."""
    by_threads: dict[int, list[Record]] = {}
    for record in records:
        if record.planner == PEER:
            by_threads.setdefault(int(record.parameters["threads"]), []).append(record)
    return {threads: exact_runs(found) for threads, found in sorted(by_threads.items())}


def counters_of(record: Record) -> Mapping[str, int]:
    """Return what a search counted."""
    return {name: value for name, value in record.statistics.items() if type(value) is int}


def nodes_of(record: Record) -> int:
    """Return the nodes of a search; 0 where a greedy plan was enough."""
    return counters_of(record).get("nodes", 0)


def seconds_of(record: Record) -> float:
    """Return what a run took, and of one that was killed at least the limit that it was told."""
    spent = record.processor_seconds
    return (record.budget_seconds or 0.0) if spent is None else spent


def whole(count: float) -> str:
    """Return a count without decimals."""
    return f"{count:,.0f}"


def time_or_why_not(runs: ExactRuns, shown: str, *, best: bool) -> str:
    """Return a cost, in bold where it is the best, or how it came that there is none."""
    if runs.broken is not None:
        return runs.broken.value.replace("_", " ")
    if not runs.settled:
        limit = runs.records[0].budget_seconds
        return NO_ANSWER if limit is None else f"{NO_ANSWER} ({limit:g} s)"
    return f"**{shown}**" if best else shown


def exact_runs(records: Iterable[Record]) -> dict[Question, ExactRuns]:
    """Return the runs of one planner by what they were asked, in the order of the records."""
    found: dict[Question, list[Record]] = {}
    for record in records:
        found.setdefault(asked(record), []).append(record)
    return {question: ExactRuns(tuple(runs), question.capacity) for question, runs in found.items()}
