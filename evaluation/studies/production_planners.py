"""Planners of packages that compile models, each called in its own package."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Literal

import numpy as np

from evaluation.peers.compiler_peers import (
    plan_by_executorch,
    plan_by_inductor,
    plan_by_onnxsim,
    plan_by_tinygrad,
    plan_by_vela_greedy,
    plan_by_vela_hill_climbing,
)
from evaluation.peers.omnimalloc_peer import plan_by_omnimalloc
from evaluation.peers.plain_lifetimes import PlainLifetimes, plain_lifetimes
from planners import place
from planners.model.budget import Budget
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import register

# Some take ten seconds to import, which no run shall pay; who lacks one learns of it in its run.
for needed in (
    "executorch.exir.memory_planning", "torch._inductor.codegen.memory_planning",
    "tinygrad.schedule.memory", "ethosu.vela.live_range", "onnxsim.memory_planning", "omnimalloc",
):  # fmt: skip
    with suppress(ImportError):
        import_module(needed)

# Ties go to the first tensor in the order; under ``shuffled`` the seed decides the order.
Order = Literal["given", "shuffled"]


# For each planner: its package, a description, and the function that calls it.
_PACKAGES: dict[str, tuple[str, str, Callable[[PlainLifetimes], Plan]]] = {
    "executorch-greedy": ("ExecuTorch", "ExecuTorch's greedy planner", plan_by_executorch),
    "tinygrad": ("tinygrad", "tinygrad's memory planner", plan_by_tinygrad),
    "vela-greedy": ("Vela", "Vela's greedy allocator", plan_by_vela_greedy),
    "vela-hill-climbing": (
        "Vela", "Vela's hill climbing, with its own seed", plan_by_vela_hill_climbing
    ),
    "onnxsim": ("onnxsim", "onnxsim's plan of activation memory", plan_by_onnxsim),
    "inductor-pools": (
        "Inductor", "PyTorch Inductor's planner of memory pools", plan_by_inductor
    ),
}  # fmt: skip


def _planner_of(
    package: str, plan_by: Callable[[PlainLifetimes], Plan]
) -> Callable[[Problem, Budget, Order], Plan]:
    def planned(problem: Problem, budget: Budget, order: Order = "given") -> Plan:
        shuffled = budget.seed if order == "shuffled" else None
        return plan_by(plain_lifetimes(problem, package, shuffled))

    return planned


for name, (package, summary, plan_by) in _PACKAGES.items():
    register(name, summary=summary)(_planner_of(package, plan_by))


@register("omnimalloc", summary="An allocator of the package omnimalloc")
def omnimalloc(problem: Problem, budget: Budget, allocator: str = "greedy_by_all") -> Plan:
    return plan_by_omnimalloc(plain_lifetimes(problem, "omnimalloc"), allocator, budget)


@register(
    "tflite-micro-greedy",
    summary="The rule of TensorFlow Lite Micro's greedy planner, as published",
    source="tensorflow/tflite-micro, greedy_memory_planner.cc",
)
def tflite_micro_greedy(problem: Problem, budget: Budget) -> Plan:
    # Large tensors first, of equal ones the last; each in the first gap that takes it.
    turn = np.empty(problem.tensor_count, dtype=np.int64)
    turn[np.lexsort((np.arange(len(turn)), problem.size))[::-1]] = np.arange(len(turn))
    return place(problem, turn, "first", budget=budget)
