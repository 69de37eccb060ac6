"""Multi-stream safety: the published algorithms and ours, in the shape of the paper's Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from evaluation.benchmarks.measuring.processor_seconds import measure
from evaluation.benchmarks.writing.page import ImplausiblePageError, Page, milliseconds, ratio
from evaluation.claims.paper_networks import PAPER_NETWORKS, PaperNetwork
from instances.catalogue.instance_name import file_label
from instances.synthetic import training_graph
from planners import Problem, read_any
from planners._core import BitRows
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.model.graph import Graph
from planners.safety.algorithms import ALGORITHMS, core_graph

# Graphs drawn at random, of the tensor counts of some of the paper's networks.
SYNTHETIC_SIZES = (1_500, 4_200, 8_200, 20_000)
SYNTHETIC_STREAMS = 100
# Below this share two times are as good as equal.
CLEAR = 0.1


@dataclass(frozen=True)
class SafetyInstance:
    """One graph, and what every algorithm cost on it."""

    name: str
    problem: Problem
    graph: Graph
    # Processor seconds of every round, by algorithm.
    cost: dict[str, list[float]]
    # What the paper measured on its network of that name.
    paper: PaperNetwork | None = None

    @property
    def change(self) -> float:
        """Time of Algorithm 2 above that of 1opt in the same round, as a share; the median."""
        rounds = zip(self.cost["2"], self.cost["1opt"], strict=True)
        return median(second / first for second, first in rounds) - 1


def safety_page(files: Sequence[Path], command: str, repetitions: int) -> Page:
    """Measure every safety algorithm on graphs and hold their answers against each other.

    Source: Lamprou et al. 2023, table 1.
    """
    by_instance = {network.instance: network for network in PAPER_NETWORKS}
    instances = []
    for path in files:
        name = file_label(path)
        instances.append(_measure(name, read_any(path), repetitions, by_instance.get(name)))
    family = [training_graph(size, streams=SYNTHETIC_STREAMS) for size in SYNTHETIC_SIZES]
    drawn = [_measure(problem.name, problem, repetitions) for problem in family]
    page = Page("Multi-stream safety", command)
    page.say(
        "The full relation of unsafe pairs, median processor time in milliseconds over "
        f"{repetitions} rounds, in each of which all four take a turn. They are in C++ and return "
        "the same bits; the run stops if they do not. `1`, `1opt` and `2` are the published "
        "algorithms, `ours` is the default, on clocks. *2 to 1opt* is how much more time Algorithm "
        "2 takes than 1opt in the same round, the median, and beside it what the paper measured of "
        "its network of that name, whose graph is another one. *Between* are tensors that are read "
        "on another stream than that of their producer."
    )
    _add_verdict(page, instances)
    page.table(
        ["graph", "tensors", "streams", "unsafe", "between", "1", "1opt", "2", "ours", "worst",
         "2 to 1opt", "paper's", "1opt/ours", "2/ours"],
        [_row(instance) for instance in [*instances, *drawn]],
    )  # fmt: skip
    page.say(
        "The last rows are drawn at random. Algorithm 2 decides a pair by one comparison where the "
        "earlier tensor is not between streams, and asks stream after stream where it is; drawn at "
        "random most tensors are."
    )
    return page


def _measure(
    name: str, problem: Problem, repetitions: int, paper: PaperNetwork | None = None
) -> SafetyInstance:
    if problem.graph is None:
        raise GaplessError(f"{name}: a graph is needed, found lifetimes or pairs alone")
    graph = core_graph(problem.graph)
    cost: dict[str, list[float]] = {algorithm: [] for algorithm in ALGORITHMS}
    found: dict[str, BitRows] = {}
    for turn in range(repetitions):
        for algorithm, find in ALGORITHMS.items():
            show_progress(f"{name}: algorithm {algorithm}, round {turn + 1}")
            measured = measure(partial(find, graph), 1)
            cost[algorithm].append(measured.seconds)
            found[algorithm] = measured.value
    for algorithm, rows in found.items():
        if not rows.equals(found["1"]):
            raise ImplausiblePageError(
                f"{name}: all algorithms agree, found that 1 and {algorithm} do not; "
                "no page is written"
            )
    return SafetyInstance(name, problem, problem.graph, cost, paper)


def _add_verdict(page: Page, instances: Sequence[SafetyInstance]) -> None:
    changes = [instance.change for instance in instances if instance.paper is not None]
    if changes:
        less, more = ([change for change in changes if sign * change > 0] for sign in (-1, 1))
        page.say(
            f"Of the {len(changes)} networks of the paper that are here, Algorithm 2 takes less "
            f"time than 1opt on {len(less)}, {_clearly(less)}, and more on {len(more)}, "
            f"{_clearly(more)}. The paper has it faster on all of its own."
        )


def _clearly(changes: Sequence[float]) -> str:
    # In whole percent, as the table has them.
    clear = sum(abs(round(change, 2)) >= CLEAR for change in changes)
    return f"on {clear} of them by a tenth or more"


def _row(instance: SafetyInstance) -> list[str]:
    problem, cost, ours = instance.problem, instance.cost, instance.cost["clocks"]
    pairs = problem.tensor_count * (problem.tensor_count - 1) / 2
    unsafe = problem.core.unsafe_degrees().sum() / 2
    paper = instance.paper
    return [
        instance.name,
        f"{problem.tensor_count:,}",
        str(problem.stream_count),
        f"{unsafe / max(pairs, 1):.1%}",
        f"{_share_between_streams(instance.graph):.1%}",
        *(milliseconds(median(cost[name])) for name in ("1", "1opt", "2")),
        milliseconds(median(ours)),
        milliseconds(max(ours)),
        f"{instance.change:+z.0%}",
        "" if paper is None else f"{paper.safety_2_ms / paper.safety_1opt_ms - 1:+z.0%}",
        ratio(median(cost["1opt"]), median(ours)),
        ratio(median(cost["2"]), median(ours)),
    ]


def _share_between_streams(graph: Graph) -> float:
    """Return the share of tensors that some other stream than their producer's reads."""
    own = graph.stream[graph.producer]
    elsewhere = graph.stream[graph.consumer_nodes] != own[graph.consumer_tensors]
    return len(np.unique(graph.consumer_tensors[elsewhere])) / max(1, graph.tensor_count)
