"""How the cost of planning grows with the number of tensors."""

from __future__ import annotations

from functools import partial

from evaluation.benchmarks.measure import measure, progress
from evaluation.benchmarks.page import Page, milliseconds
from instances.synthetic import training_graph, training_trace
from planners import Problem, place, place_in_objects
from planners.bounds import antichain_bound, lifetime_bound
from planners.check import find_violation_fast
from planners.core_instance import make_core_instance

LIFETIME_SIZES = (1_000, 10_000, 100_000, 1_000_000)
GRAPH_SIZES = (1_000, 3_000, 10_000, 30_000)


def scaling_page(command: str, repetitions: int) -> Page:
    """Measure greedy planning on growing synthetic problems.

    Parameters
    ----------
    command
        For the page.
    repetitions
        Runs of each; the median counts.

    Returns
    -------
    Page
        One table for lifetimes, one for graphs on 100 streams.
    """
    page = Page("Scaling", command)
    page.say(
        "Median processor time in milliseconds, and in brackets microseconds a tensor. With "
        "lifetimes the engine works on the structure of time and the cost a tensor stays nearly "
        "flat. With a graph on several streams the relation itself has a bit for every pair."
    )
    page.say("Lifetimes (`instances.synthetic.training_trace`):")
    page.table(
        ["tensors", "model", "lifetime bound", "greedy-size-first", "greedy-size-best",
         "many-objects-size-first", "referee's twin"],
        [_lifetime_row(training_trace(size), repetitions) for size in LIFETIME_SIZES],
    )  # fmt: skip
    page.say("Graphs on 100 streams (`instances.synthetic.training_graph`):")
    page.table(
        ["tensors", "safety", "antichain bound", "greedy-size-first", "greedy-size-best",
         "many-objects-size-first", "referee's twin"],
        [_graph_row(training_graph(size, streams=100), repetitions) for size in GRAPH_SIZES],
    )  # fmt: skip
    return page


def _lifetime_row(problem: Problem, repetitions: int) -> list[str]:
    return _row(problem, repetitions, partial(lifetime_bound, problem))


def _graph_row(problem: Problem, repetitions: int) -> list[str]:
    return _row(problem, repetitions, partial(antichain_bound, problem))


def _row(problem: Problem, repetitions: int, bound: partial[object]) -> list[str]:
    plan = place(problem, "size", "first")
    calls = (
        partial(make_core_instance, problem),
        bound,
        partial(place, problem, "size", "first"),
        partial(place, problem, "size", "best"),
        partial(place_in_objects, problem, "size", "first"),
        partial(find_violation_fast, problem, plan),
    )
    cells = [f"{problem.tensor_count:,}"]
    for call in calls:
        progress(f"{problem.name}: {getattr(call.func, '__name__', '')}")
        seconds = measure(call, repetitions).seconds
        cells.append(f"{milliseconds(seconds)} ({seconds * 1e6 / problem.tensor_count:.3g})")
    return cells
