"""Every committed instance under the greedy planners and `auto`, beside the paper's tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.benchmarks.published.paper_networks import (
    LARGE_NETWORKS,
    MANY_OBJECTS,
    PAPER_NETWORKS,
    PAPER_PLANNERS,
    SINGLE_OBJECT,
    PaperNetwork,
)
from evaluation.benchmarks.writing.figure import Figure, gap, percent_above
from evaluation.benchmarks.writing.page import Page, milliseconds, seconds
from instances.catalogue.instance_name import file_label
from planners import Budget, Problem, Status, read_any
from planners.command_line.progress_line import show_progress
from planners.compare.comparison import Comparison, ComparisonRow, compare_planners
from planners.errors import GaplessError
from planners.registry import choose

GB = 1e9
AUTO = "auto"
LIFETIME = "lifetime"
TO_LIFETIME = f"gap to {LIFETIME} bound"
PLANNERS = "greedy-*,many-objects-*,auto"


@dataclass(frozen=True)
class CollectionInstance:
    """One instance and what the planners made of it."""

    # As in the catalogue.
    name: str
    comparison: Comparison
    # From reading the file to the last answer.
    wall_seconds: float

    @property
    def problem(self) -> Problem:
        """What was planned."""
        return self.comparison.problem

    @property
    def bound(self) -> int:
        """Best lower bound that anything proved, bytes."""
        return max(row.result.lower_bound for row in self.comparison.rows)

    @property
    def lifetime_bound(self) -> int:
        """Most bytes that are alive at once, which is the bound that the paper prints."""
        return next(known.bytes for known in self.comparison.bounds if known.name == LIFETIME)

    @property
    def peak(self) -> int:
        """Smallest peak of all plans, bytes."""
        return self.best([row.label for row in self.comparison.rows]).result.peak or 0

    @property
    def greedy_peak(self) -> int:
        """Smallest peak of the greedy plans, bytes."""
        return self.best(PAPER_PLANNERS).result.peak or 0

    def best(self, planners: Sequence[str]) -> ComparisonRow:
        """Return the row with the smallest peak among planners, the first of several."""
        rows = [row for row in self.comparison.rows if row.label in planners and row.result.plan]
        if not rows:
            raise GaplessError(
                f"{self.name}: a plan by {', '.join(planners)} is needed, found none"
            )
        return min(rows, key=lambda row: row.result.peak or 0)

    def shortest_seconds(self, planners: Sequence[str]) -> float:
        """Return the least processor time that one of the planners took."""
        rows = self.comparison.rows
        return min(row.result.cpu_seconds for row in rows if row.label in planners)


def collection_page(files: Sequence[Path], command: str, time_limit_seconds: float) -> Page:
    """Run the greedy planners and `auto` on every file."""
    instances = [_run(path, time_limit_seconds) for path in files]
    page = Page("The collection", command)
    by_name = {instance.name: instance for instance in instances}
    _add_paper(page, by_name)
    _add_large(page, by_name)
    _add_all(page, instances, time_limit_seconds)
    return page


def _run(path: Path, time_limit_seconds: float) -> CollectionInstance:
    show_progress(path.name)
    begun = time.perf_counter()
    budget = Budget(time_limit_seconds=time_limit_seconds)
    comparison = compare_planners(read_any(path), choose(PLANNERS), budget)
    for row in comparison.rows:
        if row.result.status is Status.INVALID:
            raise GaplessError(f"{path.name}: {row.label} is invalid: {row.result.reason}")
    return CollectionInstance(file_label(path), comparison, time.perf_counter() - begun)


def _add_paper(page: Page, by_name: dict[str, CollectionInstance]) -> None:
    found = [network for network in PAPER_NETWORKS if network.instance in by_name]
    if not found:
        return
    page.say(
        "The paper's ten networks (its Tables 2 and 3) and ours of the same name: theirs is "
        "MindSpore's graph on Ascend, ours PyTorch's on a GPU, so shapes and orders of size agree "
        "and bytes do not; the catalogue says of each where it differs and why. GB is 10^9 bytes. "
        f"The paper has one lower bound, the lifetime bound. *{TO_LIFETIME}* is how far the best "
        "plan is above that, theirs and ours alike; *gap to best bound* is to the best bound that "
        "anything proved of ours, which may be higher: where that is 0 %, no plan is better. "
        "*many / single* is the best peak of Many Objects above that of Single Object, and *time* "
        "how much less the fastest Many Objects takes than the fastest Single Object."
    )
    rows = [row for network in found for row in _paper_rows(network, by_name[network.instance])]
    page.table(
        ["network", "", "tensors", "chains", "naive (GB)", "lifetime bound (GB)",
         "best peak (GB)", TO_LIFETIME, "gap to best bound", "many / single", "time"],
        rows,
    )  # fmt: skip


def _paper_rows(paper: PaperNetwork, instance: CollectionInstance) -> list[list[str | Figure]]:
    best = paper.least_gb(PAPER_PLANNERS)
    their_single, their_many = (paper.least_gb(its) for its in (SINGLE_OBJECT, MANY_OBJECTS))
    theirs: list[str | Figure] = [
        paper.name, "paper", f"~{paper.tensors:,}",
        "" if paper.chains is None else f"{paper.chains:,}", f"{paper.naive_gb:.4f}",
        f"{paper.bound_gb:.4f}", f"{best:.4f}", gap(best, paper.bound_gb), "",
        percent_above(their_many, their_single),
        f"{paper.shortest_ms(MANY_OBJECTS) / paper.shortest_ms(SINGLE_OBJECT) - 1:+z.0%}",
    ]  # fmt: skip
    problem, peak = instance.problem, instance.peak
    single, many = (
        instance.best(planners).result.peak or 0 for planners in (SINGLE_OBJECT, MANY_OBJECTS)
    )
    faster = (
        instance.shortest_seconds(MANY_OBJECTS)
        / max(instance.shortest_seconds(SINGLE_OBJECT), 1e-9)
        - 1
    )
    ours: list[str | Figure] = [
        paper.name, "ours", f"{problem.tensor_count:,}", f"{len(problem.contiguous):,}",
        f"{problem.naive_bytes / GB:.4f}", f"{instance.lifetime_bound / GB:.4f}",
        f"{peak / GB:.4f}", gap(peak, instance.lifetime_bound), gap(peak, instance.bound),
        percent_above(many, single), f"{faster:+z.0%}",
    ]  # fmt: skip
    return [theirs, ours]


def _add_large(page: Page, by_name: dict[str, CollectionInstance]) -> None:
    rows: list[list[str | Figure]] = []
    for paper in LARGE_NETWORKS:
        if paper.instance not in by_name:
            continue
        instance = by_name[paper.instance]
        rows += [
            [paper.name, "paper", "", f"{paper.baseline_gb:.2f}", f"{paper.bound_gb:.2f}",
             f"{paper.best_gb:.2f}", gap(paper.best_gb, paper.bound_gb), ""],
            [paper.name, "ours", f"{instance.problem.tensor_count:,}",
             f"{instance.problem.naive_bytes / GB:.2f}", f"{instance.lifetime_bound / GB:.2f}",
             f"{instance.peak / GB:.2f}", gap(instance.peak, instance.lifetime_bound),
             gap(instance.peak, instance.bound)],
        ]  # fmt: skip
    if rows:
        page.say(
            "The two larger ones (its Table 4). The paper's baseline is what the framework took "
            "before; ours is the naive sum."
        )
        page.table(
            ["network", "", "tensors", "baseline (GB)", "lifetime bound (GB)", "best peak (GB)",
             TO_LIFETIME, "gap to best bound"],
            rows,
        )  # fmt: skip


def _add_all(
    page: Page, instances: Sequence[CollectionInstance], time_limit_seconds: float
) -> None:
    proven = sum(instance.best([AUTO]).result.status is Status.OPTIMAL for instance in instances)
    total = sum(instance.wall_seconds for instance in instances)
    plans = sum(
        row.result.plan is not None for instance in instances for row in instance.comparison.rows
    )
    page.say(
        f"Every committed instance: {len(choose(PLANNERS))} planners, `auto` with "
        f"{time_limit_seconds:g} s. All {plans:,} plans are valid; `auto` proves {proven} of "
        f"{len(instances)} optimal. The whole run took {total:,.0f} s of wall time on one core, "
        "reading the files and judging the plans included. A gap is to the best bound that "
        "anything proved."
    )
    page.table(
        ["instance", "tensors", "streams", "chains", "naive (MB)", "bound (MB)", "certificate",
         "single: by", "gap", "ms", "many: gap", "ms", "auto: gap", "s", "status"],
        [_row(instance) for instance in instances],
    )  # fmt: skip


def _row(instance: CollectionInstance) -> list[str | Figure]:
    problem, bound = instance.problem, instance.bound
    single, many, auto = (
        instance.best(planners) for planners in (SINGLE_OBJECT, MANY_OBJECTS, [AUTO])
    )
    certificates = {
        row.result.lower_bound: row.result.certificate for row in _strongest_last(instance)
    }
    return [
        instance.name,
        f"{problem.tensor_count:,}",
        str(problem.stream_count),
        f"{len(problem.contiguous):,}",
        f"{problem.naive_bytes / 1e6:,.3f}",
        f"{bound / 1e6:,.3f}",
        certificates[bound],
        single.label.removeprefix("greedy-"),
        gap(single.result.peak or 0, bound),
        milliseconds(single.result.cpu_seconds),
        gap(many.result.peak or 0, bound),
        milliseconds(many.result.cpu_seconds),
        gap(
            auto.result.peak or 0,
            bound,
            instance.greedy_peak,
            optimal=auto.result.status is Status.OPTIMAL,
        ),
        seconds(auto.result.cpu_seconds),
        auto.result.status.value,
    ]


def _strongest_last(instance: CollectionInstance) -> Iterable[ComparisonRow]:
    return sorted(instance.comparison.rows, key=lambda row: row.result.lower_bound)
