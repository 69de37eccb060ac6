"""Gapless plans tensor memory ahead of time and proves how far each plan is from optimal.

>>> from planners import Problem, place
>>> problem = Problem(size=[3, 2, 2], start=[0, 0, 2], end=[2, 4, 4])
>>> place(problem, "size", "first").peak
5
"""

from __future__ import annotations

# First of all: a command line of ours answers Ctrl-C from here on.
from planners.command_line import starting as starting

try:
    import planners._core  # noqa: F401
    from planners import _core as _core
except ImportError as _error:
    from planners.missing_core import missing_core

    raise missing_core(_error) from None

from planners.built_in import load_built_in
from planners.command_line.version import __version__ as __version__
from planners.errors import (
    GaplessError,
    InstanceError,
    InvalidPlanError,
    MissingDependencyError,
    UnknownPlannerError,
)
from planners.files.formats import Format, read_any, read_problem
from planners.files.plan_file import read_plan, write_plan
from planners.files.problem_file import write_problem
from planners.greedy.heuristic import register_sort_key
from planners.greedy.place import place, place_in_objects
from planners.model.bounds import Bound, bounds_of
from planners.model.budget import Budget
from planners.model.graph import Graph
from planners.model.plan import Plan, Result, Status, feasible, infeasible, no_plan_found, optimal
from planners.model.problem import Problem, Safety
from planners.referee.naive import check
from planners.registry import UnsupportedProblemError, get, register, register_online
from planners.run import run, solve

load_built_in()

__all__ = [
    "Bound", "Budget", "Format", "GaplessError", "Graph", "InstanceError", "InvalidPlanError",
    "MissingDependencyError", "Plan", "Problem", "Result", "Safety", "Status",
    "UnknownPlannerError", "UnsupportedProblemError", "bounds_of", "check", "feasible", "get",
    "infeasible", "no_plan_found", "optimal", "place", "place_in_objects", "read_any",
    "read_plan", "read_problem", "register", "register_online", "register_sort_key", "run", "solve",
    "write_plan", "write_problem",
]  # fmt: skip
