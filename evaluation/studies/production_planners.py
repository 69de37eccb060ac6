"""Planners of packages that compile models, each called in its own package."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Literal

import numpy as np

from evaluation.peers.executorch_peer import plan_by_executorch
from evaluation.peers.inductor_peer import plan_by_inductor
from evaluation.peers.omnimalloc_peer import plan_by_omnimalloc
from evaluation.peers.onnxsim_peer import plan_by_onnxsim
from evaluation.peers.plain_lifetimes import PlainLifetimes, plain_lifetimes
from evaluation.peers.tinygrad_peer import plan_by_tinygrad
from evaluation.peers.vela_peer import plan_by_vela_greedy, plan_by_vela_hill_climbing
from planners import place
from planners.model.budget import Budget
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import register

# Some take ten seconds to import, which no run shall pay; who lacks one learns of it in its run.
for package in (
    "executorch.exir.memory_planning", "torch._inductor.codegen.memory_planning",
    "tinygrad.schedule.memory", "ethosu.vela.live_range", "onnxsim.memory_planning", "omnimalloc",
):  # fmt: skip
    with suppress(ImportError):
        import_module(package)

# Ties go to who comes first: with ``shuffled`` the seed says who that is.
Order = Literal["given", "shuffled"]


def _taken(problem: Problem, budget: Budget, package: str, order: Order) -> PlainLifetimes:
    return plain_lifetimes(problem, package, budget.seed if order == "shuffled" else None)


@register("executorch-greedy", summary="ExecuTorch's greedy planner")
def executorch_greedy(problem: Problem, budget: Budget, order: Order = "given") -> Plan:
    return plan_by_executorch(_taken(problem, budget, "ExecuTorch", order))


@register("tinygrad", summary="tinygrad's memory planner")
def tinygrad(problem: Problem, budget: Budget, order: Order = "given") -> Plan:
    return plan_by_tinygrad(_taken(problem, budget, "tinygrad", order))


@register("vela-greedy", summary="Vela's greedy allocator")
def vela_greedy(problem: Problem, budget: Budget, order: Order = "given") -> Plan:
    return plan_by_vela_greedy(_taken(problem, budget, "Vela", order))


@register("vela-hill-climbing", summary="Vela's hill climbing, with its own seed")
def vela_hill_climbing(problem: Problem, budget: Budget, order: Order = "given") -> Plan:
    return plan_by_vela_hill_climbing(_taken(problem, budget, "Vela", order))


@register("onnxsim", summary="onnxsim's plan of activation memory")
def onnxsim(problem: Problem, budget: Budget, order: Order = "given") -> Plan:
    return plan_by_onnxsim(_taken(problem, budget, "onnxsim", order))


@register("omnimalloc", summary="An allocator of the package omnimalloc")
def omnimalloc(problem: Problem, budget: Budget, allocator: str = "greedy_by_all") -> Plan:
    return plan_by_omnimalloc(plain_lifetimes(problem, "omnimalloc"), allocator, budget)


@register("inductor-pools", summary="PyTorch Inductor's planner of memory pools")
def inductor_pools(problem: Problem, budget: Budget, order: Order = "given") -> Plan:
    return plan_by_inductor(_taken(problem, budget, "Inductor", order))


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
