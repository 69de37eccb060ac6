"""Exact planners asked one question, once a seed: what each answered, and at what cost."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from evaluation.benchmarks.cases.variations import vary
from evaluation.benchmarks.contestants.contestant_runs import ContestantRuns, run_contestant
from evaluation.benchmarks.contestants.omnimalloc_peer import SUPERMALLOC, require_expressible
from evaluation.benchmarks.contestants.planning_calls import judged_peer_call, judged_planner_call
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.exact.branch_and_bound.branch_and_bound import NAME as OURS
from planners.files.formats import read_any
from planners.model.bounds import lifetime_bound
from planners.model.budget import Budget
from planners.model.plan import Parameters, Result, Status
from planners.model.problem import Problem

FITS = (Status.OPTIMAL, Status.FEASIBLE)


@dataclass(frozen=True)
class Question:
    """One file, and what is asked of it."""

    path: Path
    # Bytes: does a plan fit? None: what is the smallest peak?
    capacity: int | None

    @property
    def label(self) -> str:
        """Name of the file, without its folder."""
        return self.path.name

    @cached_property
    def problem(self) -> Problem:
        """What is planned."""
        return read_question(self.path, self.capacity)

    @cached_property
    def lifetime_bound(self) -> int:
        """Most bytes that are alive at once."""
        return lifetime_bound(self.problem).bytes

    def settled_by(self, result: Result) -> bool:
        """Return whether an answer is final: with a capacity yes or no, without it an optimum."""
        if self.capacity is None:
            return result.status is Status.OPTIMAL
        return result.status in FITS or result.status is Status.INFEASIBLE


@dataclass(frozen=True)
class SeedRuns:
    """What one contestant answered to one question, once a seed."""

    question: Question
    # Wall seconds a run.
    limit: float
    # One of each seed, each of one run.
    by_seed: tuple[ContestantRuns, ...]

    @property
    def results(self) -> tuple[Result, ...]:
        """The judged answers."""
        return tuple(run.result for run in self.by_seed)

    @property
    def settled_count(self) -> int:
        """For how many seeds the answer is final."""
        return sum(map(self.question.settled_by, self.results))

    @property
    def settled(self) -> bool:
        """Whether the answer is final for every seed."""
        return self.settled_count == len(self.by_seed)

    @property
    def seconds(self) -> float:
        """Median processor seconds over the seeds."""
        return statistics.median(run.seconds for run in self.by_seed)

    @property
    def worst_seconds(self) -> float:
        """Largest processor seconds over the seeds."""
        return max(run.seconds for run in self.by_seed)


def read_question(path: Path, capacity: int | None) -> Problem:
    """Return the problem of a file with another capacity."""
    return read_any(path).with_capacity(capacity)


def decision_question(path: Path, capacity: int | None) -> Question:
    """Ask whether a file fits a capacity: the one given, of the problem, or in the file's name."""
    problem = read_any(path)
    require_expressible(problem)
    for known in (capacity, problem.capacity, _capacity_in_name(path)):
        if known is not None:
            return Question(path, known)
    raise GaplessError(
        f"{path}: a capacity is needed, in the problem, as the last part of the file's name "
        "(A.1048576.csv) or by --capacity; found none"
    )


def our_runs(
    question: Question, limit: float, seeds: Iterable[int], parameters: Parameters | None = None
) -> SeedRuns:
    """Ask our planner, in a fresh process for each seed."""
    show_progress(f"{question.label}: {OURS}")
    source = partial(read_question, question.path, question.capacity)
    calls = (
        judged_planner_call(source, OURS, Budget(limit, seed=seed), parameters) for seed in seeds
    )
    return SeedRuns(
        question, limit, tuple(run_contestant(question.problem, call, 1) for call in calls)
    )


def variant_runs(
    question: Question, variation: str, limit: float, seeds: Iterable[int]
) -> SeedRuns:
    """Ask our planner about variants of an instance, each made and searched with one seed."""
    show_progress(f"{question.label}: {variation}")
    runs = []
    for seed in seeds:
        source = partial(read_variant, question.path, question.capacity, variation, seed)
        call = judged_planner_call(source, OURS, Budget(limit, seed=seed))
        runs.append(run_contestant(source(), call, 1))
    return SeedRuns(question, limit, tuple(runs))


def read_variant(path: Path, capacity: int | None, variation: str, seed: int) -> Problem:
    """Return a variant of the problem of a file with another capacity."""
    return vary(read_question(path, capacity), variation, seed)


def peer_runs(question: Question, limit: float, count: int, threads: int) -> SeedRuns:
    """Ask omnimalloc's SuperMalloc, in fresh processes.

    It takes no seed, so a run that found nothing in its time is not repeated. All its threads run
    on the core that this process is pinned to.
    """
    show_progress(f"{question.label}: {SUPERMALLOC}, {threads} threads")
    source = partial(read_question, question.path, question.capacity)
    call = judged_peer_call(source, SUPERMALLOC, Budget(limit, threads=threads))
    runs: list[ContestantRuns] = []
    for _ in range(count):
        runs.append(run_contestant(question.problem, call, 1))
        if not question.settled_by(runs[-1].result):
            break
    return SeedRuns(question, limit, tuple(runs))


def _capacity_in_name(path: Path) -> int | None:
    found = re.search(r"\.(\d+)$", path.stem)
    return int(found[1]) if found else None
