"""The referees held against a painter, who paints every byte of every tensor."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from planners import Plan, Problem, Safety
from planners.referee.fast import find_violation_fast
from planners.referee.naive import find_violation
from tests import definitions

Referee = Callable[[Problem, Plan], str | None]
REFEREES: list[Referee] = [find_violation, find_violation_fast]


def painted_overlaps(problem: Problem, plan: Plan) -> definitions.Pairs:
    """Return the unsafe pairs that share a byte, by painting every byte of every tensor."""
    painted: dict[int, list[int]] = {}
    for tensor, (offset, size) in enumerate(
        zip(plan.offsets.tolist(), problem.size.tolist(), strict=True)
    ):
        for byte in range(offset, offset + size):
            painted.setdefault(byte, []).append(tensor)
    together = {(a, b) for tensors in painted.values() for b in tensors for a in tensors if a < b}
    return together & definitions.unsafe(problem)


def painted_steps(problem: Problem, plan: Plan) -> bool:
    """Return whether some cell of the picture, time by offset, is painted twice."""
    cells = [
        (step, byte)
        for tensor in range(problem.tensor_count)
        for step in definitions.steps_needed(problem, tensor)
        for byte in range(plan.offsets[tensor], plan.offsets[tensor] + problem.size[tensor])
    ]
    return len(cells) != len(set(cells))


def keeps_conditions(problem: Problem, offsets: list[int]) -> bool:
    """Return whether alignment, pins and chains hold."""
    size = problem.size.tolist()
    return (
        all(at >= 0 for at in offsets)
        and all(at % a == 0 for at, a in zip(offsets, problem.alignment.tolist(), strict=True))
        and all(p in (-1, at) for at, p in zip(offsets, problem.pinned.tolist(), strict=True))
        and all(
            offsets[chain[i + 1]] == offsets[chain[i]] + size[chain[i]]
            for chain in problem.contiguous
            for i in range(len(chain) - 1)
        )
    )


def corrupt(rng: Random, problem: Problem, plan: Plan) -> Plan:
    """Return a plan that may be wrong: blocks moved, tensors moved, or all thrown at random."""
    offsets = plan.offsets.tolist()
    kind = rng.randrange(4)
    blocks = problem.blocks
    if not offsets:
        return plan
    if kind == 0:
        offsets[rng.randrange(len(offsets))] += rng.choice([-8, -1, 1, 3, 8])
    elif kind == 3:
        limit = max(1, int(problem.size.sum()))
        offsets = [rng.randrange(limit) for _ in offsets]
    else:
        for _ in range(rng.randint(1, 3)):
            block = rng.randrange(blocks.count)
            step = int(blocks.modulus[block]) * rng.choice([-2, -1, 1, 2])
            for tensor in blocks.members[blocks.indptr[block] : blocks.indptr[block + 1]]:
                offsets[int(tensor)] += step
    return Plan.of(problem, offsets)


def assert_judged(problem: Problem, plan: Plan) -> bool:
    """Check both referees against the painter, and return whether the plan is valid."""
    offsets = plan.offsets.tolist()
    sound = keeps_conditions(problem, offsets)
    wrong_pairs = painted_overlaps(problem, plan) if sound else set()
    if sound and problem.safety is Safety.LIFETIMES:
        assert painted_steps(problem, plan) == bool(wrong_pairs)
    valid = sound and not wrong_pairs
    for referee in REFEREES:
        violation = referee(problem, plan)
        assert (violation is None) == valid, (referee.__name__, violation)
        if violation is not None and sound:
            assert violation in {described(problem, plan, pair) for pair in wrong_pairs}
    return valid


def described(problem: Problem, plan: Plan, pair: tuple[int, int]) -> str:
    spans = [
        f"{problem.describe(t)} at [{plan.offsets[t]}, {plan.offsets[t] + problem.size[t]})"
        for t in pair
    ]
    return f"unsafe tensors share bytes: {spans[0]} and {spans[1]}"
