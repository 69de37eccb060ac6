"""The least cost of a plan, by trying every offset of every block."""

from __future__ import annotations

import numpy as np

from planners import Plan, Problem
from planners.referee.naive import find_violation, plan_cost
from tests.definitions import unsafe


def least_cost(problem: Problem) -> int | None:
    """Return the least cost of a plan that fits, or None if none does."""
    pairs = [pair for pair in unsafe(problem) if problem.size[list(pair)].all()]
    ranges = [(memory.begin, memory.end) for memory in problem.memories]
    if not ranges:
        ranges = [(0, problem.naive_bytes if problem.capacity is None else problem.capacity)]
    pieces, offsets_of = _pieces(problem)
    offsets = np.zeros(problem.tensor_count, dtype=np.int64)
    best: int | None = None

    def place(index: int, placed: frozenset[int]) -> None:
        nonlocal best
        if index == len(pieces):
            plan = Plan.of(problem, offsets)
            if find_violation(problem, plan) is None:
                cost = plan_cost(problem, offsets)
                best = cost if best is None else min(best, cost)
            return
        members, before = pieces[index], offsets_of[index]
        size = max(b + int(problem.size[t]) for t, b in zip(members, before, strict=True))
        now = placed.union(members)
        for head in (at for begin, end in ranges for at in range(begin, end - size + 1)):
            for tensor, ahead in zip(members, before, strict=True):
                offsets[tensor] = head + ahead
            if not any(a in now and b in now and _meet(problem, offsets, a, b) for a, b in pairs):
                place(index + 1, now)

    place(0, frozenset())
    return best


def _pieces(problem: Problem) -> tuple[list[list[int]], list[list[int]]]:
    """Return what moves as one, chains, groups and single tensors, with the bytes before each."""
    pieces = [list(chain) for chain in problem.contiguous]
    before = [np.cumsum([0, *problem.size[chain[:-1]]]).tolist() for chain in pieces]
    pieces += [list(group) for group in problem.together]
    before += [[0] * len(group) for group in problem.together]
    held = {tensor for piece in pieces for tensor in piece}
    singles = [[tensor] for tensor in range(problem.tensor_count) if tensor not in held]
    return pieces + singles, before + [[0]] * len(singles)


def _meet(problem: Problem, offsets: np.ndarray, a: int, b: int) -> bool:
    size = problem.size
    return bool(offsets[a] < offsets[b] + size[b] and offsets[b] < offsets[a] + size[a])
