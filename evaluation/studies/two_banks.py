"""Planners of a fast and a slow bank, on the tensors of a program that has one memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from evaluation.peers.compiler_peers import EXECUTORCH_BLOCK
from evaluation.peers.plain_lifetimes import plain_lifetimes
from planners import MissingDependencyError, no_plan_found
from planners.judged_run import run
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.memories import Memory
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem
from planners.registry import register

# It takes seconds to import, which no run shall pay; who lacks it learns of it in its run.
with suppress(ImportError):
    import_module("executorch.exir.banked_memory_planning")


@register("banked-greedy", summary="ExecuTorch's planner of banks", memories=True)
def banked_greedy(problem: Problem, budget: Budget) -> Plan | Result:  # noqa: ARG001
    """Ask ``BankedGreedy`` with specs in the order of the tensors."""
    try:
        import torch
        from executorch.exir import banked_memory_planning as theirs
        from executorch.exir.tensor import TensorSpec
    except ImportError as error:
        raise MissingDependencyError(f"ExecuTorch 1.5 is needed ({error})", "executorch") from None
    lifetimes = plain_lifetimes(problem, "ExecuTorch")
    banks = [
        theirs.Bank(memory.name, memory.capacity // lifetimes.unit * EXECUTORCH_BLOCK, number)
        for number, memory in enumerate(problem.memories, 1)
    ]
    specs = []
    for size, first, last in lifetimes.rows:
        spec = TensorSpec(torch.uint8, torch.Size([size * EXECUTORCH_BLOCK]))
        spec.lifetime = [first, last]
        specs.append(spec)
    planner = theirs.BankedGreedy(theirs.TargetMemoryMap(banks))
    try:
        found = planner(EXECUTORCH_BLOCK, specs, SimpleNamespace(input_mem_buffer_sizes=None))
    except theirs.BankPlacementError:
        return no_plan_found("no bank has room for some tensor")
    offsets = np.zeros(problem.tensor_count, dtype=np.int64)
    for tensor, spec in zip(lifetimes.tensors, specs, strict=True):
        its = found.spec_dict[spec]
        begin = problem.memories[its.mem_id - 1].begin
        offsets[tensor] = begin + its.mem_offset // EXECUTORCH_BLOCK * lifetimes.unit
    return Plan.of(problem, offsets)


@register("two-banks", summary="A planner in a fast and a slow bank; counts the bytes in the slow")
def two_banks(
    problem: Problem,
    budget: Budget,
    planner: str = "auto",
    fast: float = 0.5,
    slow: float = 1000.0,
) -> Findings:
    """Plan in banks of these parts of the lifetime bound, and pay for each byte in the slow one."""
    bound = max(its.bytes for its in bounds_of(problem) if its.name == "lifetime")
    memories = _memories(problem, int(fast * bound), int(slow * bound))
    places = [
        (tensor, index, index * size)
        for tensor, size in enumerate(problem.size.tolist())
        for index in range(2)
    ]
    everything = range(problem.tensor_count)
    banked = problem.select(everything, memories=memories, places=places, capacity=None)
    result = run(banked, planner, budget)
    fits = result.status in (Status.OPTIMAL, Status.FEASIBLE)
    least = _least_spill(problem, memories[0].capacity)
    found = {"fits": fits, "at_least": least, "proven": result.status is Status.OPTIMAL}
    if fits and result.cost is not None:
        found["slow_bytes"] = result.cost
    return Findings(result.plan, reason=result.reason, statistics=found)


def _memories(problem: Problem, fast: int, slow: int) -> Sequence[Memory]:
    stride = 1 << max(fast, int(problem.alignment.max(initial=1))).bit_length()
    return Memory("fast", 0, fast), Memory("slow", stride, slow)


def _least_spill(problem: Problem, fast: int) -> int:
    """Return a bound on the slow bytes: parts may be slow, and in each step the rest fits.

    A tensor that is larger than the fast bank is slow as a whole.
    """
    sizes = problem.size.astype(float)
    steps = np.unique(problem.start)
    lives = (problem.start <= steps[:, None]) & (steps[:, None] < problem.end)
    alive = lives @ sizes
    whole = (problem.size > fast).tolist()
    bounds = [(float(is_slow), 1.0) for is_slow in whole]
    solve: Any = linprog  # its types know no sparse matrices
    solved = solve(sizes, -csr_matrix(lives * sizes), fast - alive, bounds=bounds)
    unit = int(np.gcd.reduce(problem.size))
    # HiGHS keeps its rules to one part in ten million.
    return -int(solved.fun * (1e-6 - 1) // unit) * unit
