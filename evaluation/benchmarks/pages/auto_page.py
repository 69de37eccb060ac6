"""How far the planners without parameters come, beside omnimalloc's and CP-SAT, and at what cost.

Note: one table for what a peer exists for, one for what none does. omnimalloc plans lifetimes on
one stream; graphs with several streams and chains are beyond it and every other tool known, so
there the general solver CP-SAT has the same time. Every contestant of either table runs in
a fresh process on the same core, which measures its processor time from its own form of the problem
to the answer, and every plan goes through the referee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from evaluation.benchmarks.contestants.contestant_runs import ContestantRuns, run_contestant
from evaluation.benchmarks.contestants.omnimalloc_peer import (
    SUPERMALLOC,
    require_expressible,
    require_omnimalloc,
)
from evaluation.benchmarks.contestants.planning_calls import Source, peer_call, planner_call
from evaluation.benchmarks.measuring.isolated_measurement import MeasuredCall
from evaluation.benchmarks.writing.figure import Figure, gap, greedy_peak
from evaluation.benchmarks.writing.page import Page, seconds, times
from instances.synthetic import data_parallel_graph, training_graph
from planners import Bound, Budget, Problem, Result, Status, bounds_of, read_any
from planners.command_line.progress_line import show_progress
from planners.registry import UnsupportedProblemError

CallMaker = Callable[[Source, Budget], MeasuredCall[Any, Any, Result]]

AUTO, CP_SAT = "auto", "cp-sat"
# Never to be above a greedy plan.
SEARCHING = (AUTO, CP_SAT)
# Tensors that a peer's memory has room for: SuperMalloc took 10.9 GB for 62,000, and the greedy
# allocators, of which omni is made, 4.2 GB, which grows with the square of the tensors.
MOST_FOR_SUPERMALLOC = 20_000
MOST_FOR_OMNI = 65_000

# What the page promises to prove, and within how many processor seconds.
QUICK_FILES = ("resnet50.csv", "G_1.csv")
QUICK_SECONDS, TRACE_SECONDS = 0.5, 5.0
TRACE_SUFFIX = ".npz"

# Seeds, and the graphs that are made with each: data parallel by layers, branches and layers a
# bucket; training graphs by tensors, streams, chains and tensors a chain.
GRAPH_SEEDS = range(2)
DATA_PARALLEL = (
    (6, 2, 3), (8, 2, 4), (8, 3, 4), (10, 4, 5), (12, 2, 6),
    (14, 3, 7), (16, 2, 8), (18, 3, 6), (20, 2, 10), (24, 2, 8),
)  # fmt: skip
TRAINING = (
    (60, 2, 4, 4), (100, 2, 5, 4), (100, 4, 5, 8), (150, 2, 8, 6), (200, 4, 5, 5), (300, 2, 10, 6),
)  # fmt: skip


@dataclass(frozen=True)
class Contestant:
    """Who takes part, and on what."""

    label: str
    call: CallMaker
    # Above this many it sits out.
    most_tensors: int | None = None
    # Whether it plans nothing but lifetimes.
    of_peer: bool = False

    def takes(self, problem: Problem) -> bool:
        """Return whether it can plan a problem of this size and kind."""
        if self.most_tensors is not None and problem.tensor_count > self.most_tensors:
            return False
        return not self.of_peer or _is_expressible(problem)


def _is_expressible(problem: Problem) -> bool:
    try:
        require_expressible(problem)
    except UnsupportedProblemError:
        return False
    return True


def _ours(name: str) -> Contestant:
    return Contestant(name, lambda source, budget: planner_call(source, name, budget))


def _theirs(name: str, most_tensors: int) -> Contestant:
    return Contestant(
        name, lambda source, budget: peer_call(source, name, budget), most_tensors, of_peer=True
    )


FOR_FILES = (
    _ours(AUTO),
    _ours("pressure"),
    _theirs(SUPERMALLOC, MOST_FOR_SUPERMALLOC),
    _theirs("omni", MOST_FOR_OMNI),
)
FOR_GRAPHS = (_ours(AUTO), _ours(CP_SAT))


@dataclass(frozen=True)
class AutoInstance:
    """One instance: what is known of it, and what every contestant made of it."""

    name: str
    tensors: int
    # The best that is known before any search.
    bound: Bound
    greedy_peak: int
    # By label, one a seed; no label of who sat out.
    runs: dict[str, list[ContestantRuns]] = field(default_factory=dict)

    @property
    def lower_bound(self) -> int:
        """Best bound that anything proved, bytes."""
        proven = [run.result.lower_bound for runs in self.runs.values() for run in runs]
        return max(self.bound.bytes, *proven)

    def peak(self, label: str) -> int | None:
        """Return the highest peak over the seeds, None where a run has no valid plan."""
        peaks = [run.peak for run in self.runs[label]]
        valid = [peak for peak in peaks if peak is not None]
        return max(valid) if len(valid) == len(peaks) else None

    def cost(self, label: str) -> list[float]:
        """Return the processor seconds of every run."""
        return [seconds for run in self.runs[label] for seconds in run.cpu_seconds]

    def is_proven(self, label: str) -> bool:
        """Return whether every run ended with a plan that some bound proves best."""
        return self.peak(label) == self.lower_bound


def auto_page(files: Sequence[Path], command: str, seeds: int, time_limit_seconds: float) -> Page:
    """Run every contestant on every file, and ours and CP-SAT on graphs with several streams."""
    require_omnimalloc()
    budgets = [Budget(time_limit_seconds=time_limit_seconds, seed=seed) for seed in range(seeds)]
    instances = [run_all(path.name, partial(read_any, path), FOR_FILES, budgets) for path in files]
    graphs = [
        run_all(f"{source().name}, seed {seed}", source, FOR_GRAPHS, budgets[:1])
        for source, seed in graph_sources()
    ]
    page = Page("Proofs without parameters", command)
    page.say(
        "How far planners come that are given nothing but a problem and "
        f"{time_limit_seconds:g} seconds, on one thread. Processor seconds are those of the "
        "planning call in a fresh process, from each side's own Python objects to the answer: "
        "the median over the seeds "
        f"0 to {seeds - 1} and, in brackets, the worst. A gap is that of the worst seed to the "
        "best bound that any run proved; 0 % is a proven optimum. The referee checked every plan."
    )
    _add_reach(page, instances)
    _add_files(page, instances)
    _add_graphs(page, graphs)
    return page


def graph_sources() -> list[tuple[Source, int]]:
    """Return what makes the graphs of the page, with the seed of each."""
    made: list[tuple[Source, int]] = []
    for (layers, branches, bucket_layers), seed in product(DATA_PARALLEL, GRAPH_SEEDS):
        make = partial(
            data_parallel_graph, layers, branches=branches, bucket_layers=bucket_layers, seed=seed
        )
        made.append((make, seed))
    for (tensors, streams, chains, length), seed in product(TRAINING, GRAPH_SEEDS):
        make = partial(
            training_graph, tensors, streams=streams, chains=chains, chain_length=length, seed=seed
        )
        made.append((make, seed))
    return made


def run_all(
    name: str, source: Source, contestants: Sequence[Contestant], budgets: Sequence[Budget]
) -> AutoInstance:
    """Run the contestants that take an instance, each once a budget."""
    problem = source()
    bound = max(bounds_of(problem), key=lambda known: known.bytes)
    instance = AutoInstance(name, problem.tensor_count, bound, greedy_peak(problem))
    for contestant in contestants:
        if contestant.takes(problem):
            show_progress(f"{name}: {contestant.label}")
            instance.runs[contestant.label] = [
                run_contestant(problem, contestant.call(source, budget), 1) for budget in budgets
            ]
    return instance


def _add_reach(page: Page, instances: Sequence[AutoInstance]) -> None:
    """Add what was to be reached, as far as the files of this page can show it."""
    rows = []
    for name in QUICK_FILES:
        rows += _reach_row(
            f"`{name}` proven",
            [instance for instance in instances if instance.name == name],
            QUICK_SECONDS,
        )
    traces = [instance for instance in instances if instance.name.endswith(TRACE_SUFFIX)]
    rows += _reach_row(f"each of {len(traces)} recorded traces proven", traces, TRACE_SECONDS)
    if rows:
        page.say(f"What `{AUTO}` was to reach, in the worst run of all seeds:")
        page.table(["aim", "within (s)", "proven", "slowest (s)", "reached"], rows)


def _reach_row(
    aim: str, instances: Sequence[AutoInstance], limit_seconds: float
) -> list[list[str]]:
    if not instances:
        return []
    proven = sum(instance.is_proven(AUTO) for instance in instances)
    slowest = max(max(instance.cost(AUTO)) for instance in instances)
    reached = proven == len(instances) and slowest < limit_seconds
    share = f"{proven} of {len(instances)}"
    return [[aim, f"{limit_seconds:g}", share, seconds(slowest), "yes" if reached else "no"]]


def _add_files(page: Page, instances: Sequence[AutoInstance]) -> None:
    page.say(
        f"Beside omnimalloc {version('omnimalloc')}, a package on PyPI: `{SUPERMALLOC}` is its "
        "exact search, which has the same time; `omni` the best of its heuristics, which takes no "
        f"limit. A ratio is the median of theirs over that of `{AUTO}`. Where a dash stands, "
        f"omnimalloc has no notion of the instance (several streams), or memory has no room: "
        f"`{SUPERMALLOC}` took 10.9 GB for 62,000 tensors and sits out above "
        f"{MOST_FOR_SUPERMALLOC:,}, `omni` needs memory with the square of the tensors and sits "
        f"out above {MOST_FOR_OMNI:,}."
    )
    headers = ["instance", "tensors", "bound", f"{AUTO}: by"]
    for contestant in FOR_FILES:
        headers += [f"{contestant.label}: gap", "seconds"]
        headers += ["ratio"] if contestant.of_peer else []
    page.table(headers, [_file_row(instance) for instance in instances])


def _file_row(instance: AutoInstance) -> list[str | Figure]:
    cells = _first_cells(instance)
    for contestant in FOR_FILES:
        cells += _contestant_cells(instance, contestant.label)
        cells += [_ratio(instance, contestant.label)] if contestant.of_peer else []
    return cells


def _add_graphs(page: Page, graphs: Sequence[AutoInstance]) -> None:
    proven = {
        contestant.label: sum(graph.is_proven(contestant.label) for graph in graphs)
        for contestant in FOR_GRAPHS
    }
    page.say(
        "Graphs with several streams, where arcs between the streams decide what is safe, and "
        "with chains that lie in one piece. No peer plans them, so CP-SAT has the same time. "
        "*data-parallel* is made as such a training step is built: layers, streams, layers a "
        "bucket; *training* at random: tensors, streams. Proven best are, of "
        f"{len(graphs)}: {', '.join(f'{count} by `{name}`' for name, count in proven.items())}."
    )
    headers = ["instance", "tensors", "bound", f"{AUTO}: by"]
    for contestant in FOR_GRAPHS:
        headers += [f"{contestant.label}: gap", "seconds"]
    page.table(headers, [_graph_row(graph) for graph in graphs])


def _graph_row(graph: AutoInstance) -> list[str | Figure]:
    cells = _first_cells(graph)
    for contestant in FOR_GRAPHS:
        cells += _contestant_cells(graph, contestant.label)
    return cells


def _first_cells(instance: AutoInstance) -> list[str | Figure]:
    proven = instance.lower_bound > instance.bound.bytes
    source = "a search" if proven else instance.bound.name
    found_by = instance.runs[AUTO][-1].result.statistics.get("found_by") or "-"
    return [
        instance.name,
        f"{instance.tensors:,}",
        f"{instance.lower_bound:,} ({source})",
        str(found_by),
    ]


def _contestant_cells(instance: AutoInstance, label: str) -> list[str | Figure]:
    if label not in instance.runs:
        return ["-", "-"]
    cost = instance.cost(label)
    took = f"{seconds(median(cost))} ({seconds(max(cost))})"
    peak = instance.peak(label)
    if peak is None:
        return [_missing(instance.runs[label]), took]
    greedy = instance.greedy_peak if label in SEARCHING else None
    return [gap(peak, instance.lower_bound, greedy), took]


def _missing(runs: Sequence[ContestantRuns]) -> str:
    """Return the status of the first run that has no valid plan."""
    status: Status = next(run.result.status for run in runs if run.peak is None)
    return status.value


def _ratio(instance: AutoInstance, label: str) -> str:
    if label not in instance.runs:
        return "-"
    return times(median(instance.cost(label)) / median(instance.cost(AUTO)))
