"""Which start offsets a chain may take: the published rule and the exact one, held together."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from evaluation.benchmarks.writing.figure import Figure, mean_gap
from evaluation.benchmarks.writing.page import Page
from instances.synthetic import training_graph
from planners import Plan, Problem, bounds_of, place, place_in_objects
from planners.command_line.progress_line import show_progress

TENSORS = 2_000
STREAMS = (10, 50)
CHAINS = (20, 100)
SEEDS = range(5)
ORDERS = ("size", "breadth", "source", "unsafe")


def add_chain_rules(page: Page) -> None:
    """Add a table of peaks under both chain rules, over synthetic graphs with many chains.

    Source: Lamprou et al. 2023, algorithm 10.
    """
    problems = [
        training_graph(TENSORS, streams=streams, chains=chains, chain_length=8, seed=seed)
        for streams, chains, seed in product(STREAMS, CHAINS, SEEDS)
    ]
    page.say(
        f"Chains, exact rule against the paper's: {len(problems)} synthetic graphs of "
        f"{TENSORS:,} tensors on {' or '.join(map(str, STREAMS))} streams with "
        f"{' or '.join(map(str, CHAINS))} chains of 8, every order. How often the exact rule gave "
        "the lower, the same or the higher peak, and the mean gap to the bound under each."
    )
    rows = [
        _row(f"{label}, {fit} fit", problems, algorithm, fit)
        for label, algorithm in (("Single Object", place), ("Many Objects", place_in_objects))
        for fit in ("first", "best")
    ]
    page.table(["", "lower", "same", "higher", "mean gap, exact", "mean gap, paper"], rows)


def _row(
    label: str, problems: list[Problem], algorithm: Callable[..., Plan], fit: str
) -> list[str | Figure]:
    bounds, exact, paper = [], [], []
    for problem in problems:
        show_progress(f"{label}: {problem.name}")
        bound = max(bound.bytes for bound in bounds_of(problem))
        for order in ORDERS:
            bounds.append(bound)
            exact.append(algorithm(problem, order, fit).peak)
            paper.append(algorithm(problem, order, fit, chain_rule="paper").peak)
    pairs = list(zip(exact, paper, strict=True))
    return [
        label,
        str(sum(ours < theirs for ours, theirs in pairs)),
        str(sum(ours == theirs for ours, theirs in pairs)),
        str(sum(ours > theirs for ours, theirs in pairs)),
        mean_gap(exact, bounds),
        mean_gap(paper, bounds),
    ]
