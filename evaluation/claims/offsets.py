"""Figures of the paper on offset assignment, of its own tables and of records.

Source: Lamprou et al. 2023, section 5.2 and tables 2 to 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evaluation.claims.evidence import Evidence
from evaluation.claims.paper_networks import (
    LARGE_NETWORKS,
    MANY_OBJECTS,
    PAPER_NETWORKS,
    SINGLE_OBJECT,
)
from evaluation.claims.planned_network import (
    PlannedNetwork,
    measured_large_networks,
    measured_networks,
    published_large_networks,
    published_networks,
)

OTHER_ORDERS = tuple(
    f"many-objects-{order}-{fit}"
    for order in ("breadth", "source", "unsafe")
    for fit in ("best", "first")
)
UNSAFE_ORDER = tuple(planner for planner in SINGLE_OBJECT if "-unsafe-" in planner)


def above(value: float | None, reference: float | None) -> float | None:
    """Return by which share a value is above a reference; None where one is not known."""
    return None if value is None or reference is None else value / reference - 1


def below(value: float | None, reference: float | None) -> float | None:
    """Return by which share a value is below a reference; None where one is not known."""
    share = above(value, reference)
    return None if share is None else -share


def many_above_single(network: PlannedNetwork) -> float | None:
    """Return how far the best Many Objects plan is above the best Single Object plan."""
    return above(network.least(MANY_OBJECTS), network.least(SINGLE_OBJECT))


def best_above_bound(network: PlannedNetwork) -> float | None:
    """Return how far the best plan of all is above the lifetime bound."""
    return above(network.best, network.bound)


def time_saved(network: PlannedNetwork) -> float | None:
    """Return how much less time the fastest Many Objects takes than the fastest Single Object."""
    return below(network.shortest(MANY_OBJECTS), network.shortest(SINGLE_OBJECT))


def average_time_saved(network: PlannedNetwork) -> float | None:
    """Return how much less time Many Objects takes than Single Object, mean to mean."""
    return below(network.average(MANY_OBJECTS), network.average(SINGLE_OBJECT))


def _first_fit_is_best(planners: Sequence[str]) -> Callable[[PlannedNetwork], float | None]:
    firsts = tuple(planner for planner in planners if planner.endswith("-first"))

    def is_best(network: PlannedNetwork) -> float | None:
        first, every = network.least(firsts), network.least(planners)
        return None if first is None or every is None else float(first == every)

    return is_best


def _unsafe_order_gains(network: PlannedNetwork) -> float | None:
    """Return how far the best other order of Single Object is above Greedy Unsafe."""
    others = tuple(planner for planner in SINGLE_OBJECT if planner not in UNSAFE_ORDER)
    return above(network.least(others), network.least(UNSAFE_ORDER))


def _other_orders_lose(network: PlannedNetwork) -> float | None:
    """Return how far Many Objects in any other order than by size is above that by size."""
    return above(network.least(OTHER_ORDERS), network.least(MANY_OBJECTS))


def _merging_loses(network: PlannedNetwork) -> float | None:
    """Return how far the best plan with merged chains is above the best plan of all."""
    return above(network.least_merged, network.best)


def framework_saved(network: PlannedNetwork) -> float | None:
    """Return how much less the best plan takes than the framework."""
    return below(network.best, network.framework)


OFFSETS = (
    Evidence(
        cases=tuple(paper.name for paper in PAPER_NETWORKS),
        measured=measured_networks,
        published=published_networks(),
        figures={
            "many-above-single": many_above_single,
            "best-above-bound": best_above_bound,
            "time-saved": time_saved,
            "average-time-saved": average_time_saved,
            "first-fit-best-single": _first_fit_is_best(SINGLE_OBJECT),
            "first-fit-best-many": _first_fit_is_best(MANY_OBJECTS),
            "unsafe-order-gains": _unsafe_order_gains,
            "other-orders-lose": _other_orders_lose,
            "merging-loses": _merging_loses,
        },
    ),
    Evidence(
        cases=tuple(paper.name for paper in LARGE_NETWORKS),
        measured=measured_large_networks,
        published=published_large_networks(),
        figures={"framework-saved": framework_saved, "large-above-bound": best_above_bound},
    ),
)
