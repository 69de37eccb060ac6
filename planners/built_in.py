"""The planners that come with the package, in the order in which they are listed."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from planners.registry import take_all_as_built_in

BUILT_IN_MODULES = (
    "planners.greedy.naive",
    "planners.greedy.single_object",
    "planners.greedy.many_objects",
    "planners.greedy.pressure",
    "planners.homosize.homosize",
    "planners.exact.branch_and_bound.branch_and_bound",
    "planners.search.skyline",
    "planners.search.auto",
    "planners.exact.cp_sat.cp_sat",
    "planners.exact.ilp.ilp",
)


@cache
def load_built_in() -> None:
    """Import the modules that register planners, once, before anyone else can register."""
    for module in BUILT_IN_MODULES:
        import_module(module)
    take_all_as_built_in()
