"""The least cost of a plan, by trying every offset of every block."""

from __future__ import annotations

import numpy as np

from planners import Memory, Plan, Problem
from planners.referee.naive import find_violation, plan_cost
from tests.definitions import unsafe


def least_cost(problem: Problem) -> int | None:
    """Return the least cost of a plan that fits, or None if none does."""
    pairs = [pair for pair in unsafe(problem) if problem.size[list(pair)].all()]
    ends = [memory.end for memory in problem.memories]
    ends = ends or [problem.naive_bytes if problem.capacity is None else problem.capacity]
    prices = [row for row in problem.reuse_prices.tolist() if problem.size[row[:2]].all()]
    offsets = np.zeros(problem.tensor_count, dtype=np.int64)
    pieces = []
    for members, before in zip(*_pieces(problem), strict=True):
        heads = []
        for head in range(max(ends) + 1):
            found = [_cost_at(problem, t, head + b) for t, b in zip(members, before, strict=True)]
            costs = [cost for cost in found if cost is not None]
            heads += [(head, sum(costs))] * (len(costs) == len(found))
        pieces.append((members, before, sorted(heads, key=lambda row: row[1])))
    best: int | None = None

    def place(index: int, placed: frozenset[int], paid: int) -> None:
        nonlocal best
        reuse = sum(price for a, b, price in prices
                    if a in placed and b in placed and _meet(problem, offsets, a, b))  # fmt: skip
        if best is not None and paid + reuse >= best:
            return
        if index == len(pieces):
            plan = Plan.of(problem, offsets)
            if find_violation(problem, plan) is None:
                cost = plan_cost(problem, offsets)
                best = cost if best is None else min(best, cost)
            return
        members, before, heads = pieces[index]
        now = placed.union(members)
        for head, cost in heads:
            for tensor, ahead in zip(members, before, strict=True):
                offsets[tensor] = head + ahead
            if not any(a in now and b in now and _meet(problem, offsets, a, b) for a, b in pairs):
                place(index + 1, now, paid + cost)

    place(0, frozenset(), 0)
    return best


def _cost_at(problem: Problem, tensor: int, begin: int) -> int | None:
    """Return what a tensor alone costs at an offset; None if it has no room there."""
    size = int(problem.size[tensor])
    if begin % problem.alignment[tensor]:
        return None
    if not size:
        return 0
    costs: dict[int, int] = {m: cost for t, m, cost in problem.places.tolist() if t == tensor}
    capacity = problem.naive_bytes if problem.capacity is None else problem.capacity
    for index, memory in enumerate(problem.memories or (Memory("", 0, capacity),)):
        low, high = begin - memory.begin, begin - memory.begin + size
        apart = all(high <= first or last <= low for first, last in memory.reserved)
        if low >= 0 and high <= memory.capacity and apart and (not costs or index in costs):
            return costs.get(index, 0)
    return None


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
