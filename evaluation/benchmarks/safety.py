"""Multi-stream safety: the published algorithms and ours, in the shape of the paper's Table 1."""

from __future__ import annotations

from functools import partial

from evaluation.benchmarks.measure import Measured, measure, progress
from evaluation.benchmarks.page import Page, milliseconds, ratio
from instances.synthetic import training_graph
from planners import Problem
from planners._core import BitRows
from planners.safety import ALGORITHMS, core_graph

# Tensor counts of the paper's networks that no committed instance stands for yet.
SYNTHETIC_SIZES = (1_500, 4_200, 8_200, 20_000)
SYNTHETIC_STREAMS = 100


def safety_page(problems: list[Problem], command: str, repetitions: int) -> Page:
    """Measure every safety algorithm on graphs and hold their answers against each other.

    Parameters
    ----------
    problems
        With graphs; a synthetic family up to 20,000 tensors on 100 streams is added.
    command
        For the page.
    repetitions
        Runs of each algorithm; the median counts.

    Returns
    -------
    Page
        One row an instance.

    References
    ----------
    safe-optimized-static-memory-allocation, table 1.
    """
    family = [training_graph(size, streams=SYNTHETIC_STREAMS) for size in SYNTHETIC_SIZES]
    page = Page("Multi-stream safety", command)
    page.say(
        "The full relation of unsafe pairs, median processor time in milliseconds. All four are "
        "in C++ and return the same bits; the run stops if they do not. `1`, `1opt` and `2` are "
        "the published algorithms, `ours` is the default, on clocks."
    )
    page.table(
        ["network", "tensors", "streams", "unsafe", "1", "1opt", "2", "ours", "worst", "1opt/ours",
         "2/ours"],
        [_row(problem, repetitions) for problem in [*problems, *family]],
    )  # fmt: skip
    return page


def _row(problem: Problem, repetitions: int) -> list[str]:
    assert problem.graph is not None
    graph = core_graph(problem.graph)
    cost: dict[str, Measured[BitRows]] = {}
    for name, algorithm in ALGORITHMS.items():
        progress(f"{problem.name}: algorithm {name}")
        cost[name] = measure(partial(algorithm, graph), repetitions)
    ours = cost["clocks"]
    for name, measured in cost.items():
        if not measured.value.equals(ours.value):
            raise AssertionError(f"{problem.name}: algorithm {name} and clocks disagree")
    pairs = problem.tensor_count * (problem.tensor_count - 1) / 2
    unsafe = problem.core.unsafe_degrees().sum() / 2
    return [
        problem.name,
        f"{problem.tensor_count:,}",
        str(problem.stream_count),
        f"{unsafe / max(pairs, 1):.1%}",
        *(milliseconds(cost[name].seconds) for name in ("1", "1opt", "2")),
        milliseconds(ours.seconds),
        milliseconds(ours.worst_seconds),
        ratio(cost["1opt"].seconds, ours.seconds),
        ratio(cost["2"].seconds, ours.seconds),
    ]
