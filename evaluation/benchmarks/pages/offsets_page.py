"""Offset assignment: every greedy planner, in the shape of the paper's Tables 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from evaluation.benchmarks.measuring.processor_seconds import Measured, measure
from evaluation.benchmarks.pages.chain_rules import add_chain_rules
from evaluation.benchmarks.writing.figure import Figure, gap
from evaluation.benchmarks.writing.page import Page, milliseconds
from instances.synthetic import training_graph
from planners import Bound, Plan, Problem, bounds_of, check, place, place_in_objects
from planners.command_line.progress_line import show_progress
from planners.model.core_instance import make_core_instance

ALGORITHMS = {"Single Object": place, "Many Objects": place_in_objects}
ORDERS = ("breadth", "size", "source", "unsafe")
FITS = ("best", "first")


def offsets_page(
    problems: list[Problem], traces: list[Problem], command: str, repetitions: int
) -> Page:
    """Measure the greedy planners on graphs, and on traces where some are given.

    Source: Lamprou et al. 2023, tables 2 and 3.
    """
    largest = training_graph(20_000, streams=100, chains=678, chain_length=8)
    columns = [*problems, largest, *traces]
    bounds = [max(bounds_of(problem), key=lambda bound: bound.bytes) for problem in columns]
    page = Page("Offset assignment", command)
    page.say(
        "Gap of each plan to the best lower bound, and in brackets the median processor time of "
        "the placement in milliseconds. Every plan passed the referee. The relation of unsafe "
        "pairs is computed once per instance; its cost has a row of its own."
    )
    rows: list[list[str | Figure]] = [
        ["tensors", *(f"{problem.tensor_count:,}" for problem in columns)],
        ["streams", *(str(problem.stream_count) for problem in columns)],
        ["contiguous chains", *(str(len(problem.contiguous)) for problem in columns)],
        ["naive sum / bound", *_naive(columns, bounds)],
        ["best bound", *(f"{bound.bytes:,} ({bound.name})" for bound in bounds)],
        ["safety (ms)", *(_safety_cost(problem, repetitions) for problem in columns)],
    ]
    for label, algorithm in ALGORITHMS.items():
        for order in ORDERS:
            for fit in FITS:
                show_progress(f"{label} {order} {fit}")
                cells = [
                    _cell(
                        problem,
                        bound,
                        measure(partial(algorithm, problem, order, fit), repetitions),
                    )
                    for problem, bound in zip(columns, bounds, strict=True)
                ]
                rows.append([f"{label}, {order}, {fit} fit", *cells])
    page.table(["", *(problem.name for problem in columns)], rows)
    page.say(
        f"`{largest.name}` has the size of the paper's largest network, PanGu-alpha 2.6B: 20,000 "
        "tensors and 678 contiguous chains. There, on the paper's server, safety took 10,359 ms "
        "and Many Objects 12,390 ms."
    )
    add_chain_rules(page)
    return page


def _naive(problems: Sequence[Problem], bounds: Sequence[Bound]) -> list[str]:
    return [
        f"{problem.naive_bytes / bound.bytes:.2f}x"
        for problem, bound in zip(problems, bounds, strict=True)
    ]


def _safety_cost(problem: Problem, repetitions: int) -> str:
    return milliseconds(measure(partial(make_core_instance, problem), repetitions).seconds)


def _cell(problem: Problem, bound: Bound, measured: Measured[Plan]) -> Figure:
    check(problem, measured.value)
    return gap(measured.value.peak, bound.bytes).and_then(f" ({milliseconds(measured.seconds)})")
