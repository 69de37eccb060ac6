"""The exports of ``planners``; importing the first of these names imports this module."""

from __future__ import annotations

from planners.errors import (
    GaplessError,
    InstanceError,
    InvalidPlanError,
    MissingDependencyError,
    UnknownPlannerError,
)
from planners.files.formats import Format, read_problem, read_requests
from planners.files.plan_file import read_plan, write_plan
from planners.files.problem_file import write_problem
from planners.greedy.heuristic import register_sort_key
from planners.greedy.place import place, place_in_objects
from planners.judged_run import run, solve
from planners.model.bounds import Bound, bounds_of
from planners.model.budget import Budget
from planners.model.graph import Graph
from planners.model.memories import Memory
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.plan import Plan, Result, Status, feasible, infeasible, no_plan_found, optimal
from planners.model.problem import Problem, Safety
from planners.model.work import Work
from planners.online.online_run import run_online
from planners.referee.naive import check
from planners.registry import UnsupportedProblemError, get, register, register_online

__all__ = [
    "Bound", "Budget", "Format", "GaplessError", "Graph", "InstanceError", "InvalidPlanError",
    "Memory", "MissingDependencyError", "OnlineResult", "OnlineTerms", "Plan", "Problem", "Result",
    "Safety", "Status", "UnknownPlannerError", "UnsupportedProblemError", "Work", "bounds_of",
    "check", "feasible", "get", "infeasible", "no_plan_found", "optimal", "place",
    "place_in_objects", "read_plan", "read_problem", "read_requests", "register", "register_online",
    "register_sort_key", "run", "run_online", "solve", "write_plan", "write_problem",
]  # fmt: skip
