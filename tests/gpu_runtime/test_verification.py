"""Right plans pass and wrong plans fail, on random problems, whatever the device."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from gpu_runtime.injection import inject, moved
from gpu_runtime.verification import OpenDevice, Request, Verification, verify
from planners import Plan, Problem, Safety, place
from planners.errors import GaplessError
from tests.random_problems import SOLVABLE, random_problem

PLANS = 200
TRIALS = 12
INJECTED = 3
FEATURES = SOLVABLE - {"pins", "chains"}


def random_plan(seed: int, unit: int) -> tuple[Problem, Plan]:
    """Return a problem with sizes in units of bytes, and a right plan for it."""
    rng = Random(seed)
    safety = rng.choice([Safety.LIFETIMES, Safety.GRAPH, Safety.GRAPH, Safety.GRAPH])
    problem = random_problem(rng, safety, (2, 14), features=FEATURES)
    problem = Problem(
        problem.size * unit,
        *([problem.start, problem.end] if problem.graph is None else []),
        graph=problem.graph,
        gaps=problem.gaps,
        name=f"random-{seed}",
    )
    return problem, place(problem, rng.choice(["size", "breadth"]), "first")


def with_injections(
    problem: Problem, plan: Plan, device: OpenDevice, count: int, request: Request
) -> tuple[Verification, list[int]]:
    """Return the verification of a plan with injections, and which of these went unseen."""
    injections = inject(problem, plan, count, request.seed)
    request = replace(request, attacked=tuple((i.tensor, i.partner) for i in injections))
    verification = verify(problem, moved(plan, injections), device, request)
    assert verification.false_alarms(injections) == []
    return verification, [i.tensor for i in injections if not verification.caught(i)]


@pytest.mark.parametrize("is_compressed", [False, True], ids=["every-byte", "compressed"])
@pytest.mark.parametrize("unit", [1, 512])
def test_all_injections_are_caught_and_nothing_else_is(
    device: OpenDevice, unit: int, is_compressed: bool
) -> None:
    injected, unseen = 0, []
    for seed in range(PLANS):
        problem, plan = random_plan(seed, unit)
        request = Request(trials=TRIALS, seed=seed, is_compressed=is_compressed)
        untouched = verify(problem, plan.offsets, device, request)
        assert untouched.corruptions == []
        assert untouched.passed
        for count in range(INJECTED, 0, -1):
            try:
                _, missed = with_injections(problem, plan, device, count, request)
            except GaplessError:
                continue  # so few tensors have no so many disjoint unsafe pairs
            injected += count
            unseen += [(seed, tensor) for tensor in missed]
            break
    assert injected > 1.5 * PLANS
    assert unseen == []
