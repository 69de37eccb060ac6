"""How the cost of planning grows with the number of tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial

from evaluation.benchmarks.measuring.processor_seconds import measure
from evaluation.benchmarks.writing.page import Page, milliseconds
from instances.synthetic import random_lifetimes, training_graph, training_trace
from planners import Problem, place, place_in_objects
from planners.command_line.progress_line import show_progress
from planners.model.bounds import Bound, KnownBounds, antichain_bound, lifetime_bound
from planners.model.core_instance import make_core_instance
from planners.referee.fast import find_violation_fast

LIFETIME_SIZES = (1_000, 10_000, 100_000, 1_000_000)
RANDOM_SIZES = (1_000, 10_000, 100_000)
GRAPH_SIZES = (1_000, 3_000, 10_000, 30_000)

BoundMaker = Callable[[Problem], Bound]


def scaling_page(command: str, repetitions: int) -> Page:
    """Measure greedy planning on growing synthetic problems."""
    page = Page("Scaling", command)
    page.say(
        "Median processor time in milliseconds, and in brackets microseconds a tensor. With "
        "lifetimes the engine works on the structure of time, and where that has the regularity of "
        "a training run the cost a tensor stays nearly flat. Random lifetimes and sizes leave no "
        "two tensors that touch and stay together: the worst case for the engine, and for best "
        "fit, which has to look at every gap. With a graph on several streams the relation itself "
        "has a bit for every pair."
    )
    families: list[tuple[str, Callable[[int], Problem], Sequence[int], str, BoundMaker]] = [
        ("training_trace", training_trace, LIFETIME_SIZES, "lifetime bound", lifetime_bound),
        ("random_lifetimes", random_lifetimes, RANDOM_SIZES, "lifetime bound", lifetime_bound),
        (
            "training_graph(streams=100)",
            partial(training_graph, streams=100),
            GRAPH_SIZES,
            "antichain bound",
            antichain_bound,
        ),
    ]
    for name, make, sizes, bound_name, bound in families:
        page.say(f"`instances.synthetic.{name}`:")
        page.table(
            ["tensors", "safety", bound_name, "greedy-size-first", "greedy-size-best",
             "many-objects-size-first", "referee's twin"],
            [_row(make(size), repetitions, bound) for size in sizes],
        )  # fmt: skip
    return page


def _bound_anew(problem: Problem, bound: BoundMaker) -> Bound:
    """Compute a bound as if nobody had asked for it before; the problem would keep it."""
    forgetful = copy.copy(problem)
    object.__setattr__(forgetful, "known_bounds", KnownBounds())
    return bound(forgetful)


def _row(problem: Problem, repetitions: int, bound: BoundMaker) -> list[str]:
    plan = place(problem, "size", "first")
    calls = (
        partial(make_core_instance, problem),
        partial(_bound_anew, problem, bound),
        partial(place, problem, "size", "first"),
        partial(place, problem, "size", "best"),
        partial(place_in_objects, problem, "size", "first"),
        partial(find_violation_fast, problem, plan),
    )
    cells = [f"{problem.tensor_count:,}"]
    for call in calls:
        show_progress(f"{problem.name}: {getattr(call.func, '__name__', '')}")
        seconds = measure(call, repetitions).seconds
        cells.append(f"{milliseconds(seconds)} ({seconds * 1e6 / problem.tensor_count:.3g})")
    return cells
