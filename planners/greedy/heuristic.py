"""Makes a planner from a sort key, in one line."""

from __future__ import annotations

import inspect

from planners.greedy.place import ChainRule, Fit, place, place_in_objects
from planners.greedy.sort_keys import SortKey
from planners.model.budget import Budget
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import register


def register_sort_key(
    name: str, key: SortKey, *, fit: Fit = "first", summary: str = "", source: str = ""
) -> None:
    """Register the greedy planner that takes tensors in the order of a sort key.

    Parameters
    ----------
    name
        Lower case, words joined by ``-``; must be free.
    key
        Function from the problem to numbers, one a tensor; the smallest comes first.
    fit
        Default of the planner's parameter ``fit``. The planner has two more parameters: ``objects``
        splits the buffer into objects as in Many Objects, and ``chain_rule`` is that of
        :func:`planners.place`.
    summary
        One line for ``--list``; the first line of the key's docstring by default.
    source
        Paper, section or algorithm.

    Raises
    ------
    GaplessError
        The name is taken or cannot be written on the command line.
    """
    line = summary or (inspect.getdoc(key) or "Greedy, by a sort key").partition("\n")[0]

    # The defaults of this signature are the planner's defaults, which --list and results show.
    def plan(
        problem: Problem,
        budget: Budget,
        fit: Fit = fit,
        objects: bool = False,
        chain_rule: ChainRule = "exact",
    ) -> Plan:
        algorithm = place_in_objects if objects else place
        return algorithm(problem, key, fit, chain_rule=chain_rule, budget=budget)

    register(name, summary=line, source=source)(plan)
