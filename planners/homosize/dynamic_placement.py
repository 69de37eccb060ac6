"""Places requests of varying size around a static plan, with their recorded sizes."""

from __future__ import annotations

import numpy as np

from planners.dynamic.static_part import is_dynamic
from planners.greedy.place import place
from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem


def place_dynamic(problem: Problem, static_offsets: IntColumn, budget: Budget) -> Plan:
    """Add the dynamic tensors to a plan of all other tensors.

    Each dynamic tensor, in the order of allocation, takes the smallest gap that is free throughout
    its recorded lifetime. Best fit at run time could do no better, since it does not know the
    frees.
    """
    dynamic = is_dynamic(problem)
    if not dynamic.any():
        return Plan.of(problem, static_offsets)
    around = problem.select(
        np.arange(problem.tensor_count),
        start=problem.start,
        end=problem.end,
        pinned=np.where(dynamic, NOT_PINNED, static_offsets),
    )
    return place(around, "source", "best", budget=budget)
