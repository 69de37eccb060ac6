"""The least cost of reuse: proven ones are those of brute force, and no proof says more."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest

from planners import Budget, Plan, Problem, Safety, Status, run
from planners.errors import GaplessError
from planners.exact.branch_and_bound.branch_and_bound import search
from planners.exact.least_cost.cost_tree import certify_cost
from planners.files.certificate_file import certificate_to_fields
from planners.referee.cost_certificate import check_cost_certificate
from planners.testing.contract import WITH_A_PLAN, require_contract
from planners.testing.random_problems import FEATURES, random_problem, with_prices
from tests.planners.exact.brute_force import least_cost, optimal_peak

pytestmark = pytest.mark.core


def priced(rng: Random, most: int) -> Problem | None:
    """Return a problem of few tensors whose capacity is seldom below the least peak."""
    safety = rng.choice(list(Safety))
    features = FEATURES - {"capacity"} - rng.choice([frozenset(), {"chains"}, {"chains", "pins"}])
    problem = with_prices(rng, random_problem(rng, safety, (3, most), features=features))
    peak = optimal_peak(problem)
    if peak is None or not len(problem.reuse_prices):
        return None
    return problem.with_capacity(max(peak + rng.choice([-1, 0, 0, 1, 2, 5]), 0))


def require_the_least_cost(seed: int, most: int = 5) -> bool:
    """Hold an exact answer against brute force; return whether its plan pays."""
    problem = priced(Random(f"least cost {seed}"), most)
    if problem is None:
        return False
    least = least_cost(problem)
    for planner in ("branch-and-bound", "auto"):
        result = run(problem, planner)
        require_contract(problem, result)
        status = Status.INFEASIBLE if least is None else Status.OPTIMAL
        assert (result.status, seed) == (status, seed)
        if least is not None:
            assert (result.cost, result.cost_bound) == (least, least)
    return bool(least)


def test_the_least_cost_is_that_of_brute_force() -> None:
    assert sum(map(require_the_least_cost, range(150))) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_the_least_cost_of_many_problems(part: int) -> None:
    seeds = range(250 * part, 250 * (part + 1))
    assert sum(map(require_the_least_cost, seeds)) >= 50


@pytest.mark.parametrize("seed", range(30))
def test_a_search_that_is_cut_short_bounds_the_cost(seed: int) -> None:
    rng = Random(f"cut short {seed}")
    problem = priced(rng, 5)
    least = None if problem is None else least_cost(problem)
    if problem is None or least is None:
        return
    result = run(problem, "branch-and-bound", Budget(node_limit=rng.choice([0, 1, 5, 50])))
    if result.status in WITH_A_PLAN:
        assert result.cost is not None
        assert result.cost_bound <= least <= result.cost


def mutations(seed: int, count: int) -> int:
    """Return how many mutated certificates are accepted; none says more than the truth."""
    rng = Random(f"certificate {seed}")
    problem = priced(rng, 6)
    if problem is None:
        return 0
    found = run(problem, "branch-and-bound")
    if found.plan is None or found.status is not Status.OPTIMAL:
        return 0
    least = found.cost_bound
    proof = certify_cost(problem, least, found.plan, search, Budget())
    fields = certificate_to_fields(problem, proof)
    proven = check_cost_certificate(fields)
    assert (proven.bound, proven.is_met) == (least, True)
    fields.pop("offsets")
    accepted = 0
    for _ in range(count):
        mutated = mutate(rng, fields, problem)
        try:
            bound = check_cost_certificate(mutated).bound
        except GaplessError:
            continue
        accepted += 1
        # A plan of this cost is valid, so that no proof may say more.
        assert bound is not None
        assert bound <= least
    return accepted


def mutate(rng: Random, fields: dict[str, Any], problem: Problem) -> dict[str, Any]:
    """Return fields with a larger cost, and up to three other changes of the proof."""
    changed = copy.deepcopy(fields)
    changed["cost"] += rng.choice([-1, 0, 1, 1, 1, 2, 9])
    rows, tree, tensors = changed["rows"], changed["tree"], problem.tensor_count
    for _ in range(rng.randint(0, 3)):
        what = rng.choice(["row", "row", "leaf", "branch", "unsafe", "cut"])
        if what == "unsafe":
            changed["unsafe"] += [rng.randrange(len(problem.reuse_prices))]
        elif what == "row" and rows:
            row = rng.choice(rows)
            sets = row["sets"]
            part = rng.choice(["set", "set", "divisor", "tree", "more"])
            if part == "set" and sets:
                one = rng.choice(sets)
                one[rng.randrange(len(one))] = rng.randrange(tensors)
            elif part == "divisor" and "divisor" in row:
                row["divisor"] = rng.randint(0, 2 * row["divisor"])
            elif part == "tree" and "tree" in row:
                row["tree"][rng.randrange(len(row["tree"]))] = rng.randrange(tensors)
            elif part == "more":
                sets.append(rng.sample(range(tensors), 2))
        elif what == "leaf":
            leaf = rng.choice([node for node in tree if isinstance(node, list)] or [[1]])
            leaf[rng.randrange(len(leaf))] += rng.choice([-1, 1, 1 << 40, -(1 << 40)])
        elif what == "branch":
            at = rng.randrange(len(tree))
            pair = rng.randrange(len(problem.reuse_prices))
            tree[at:at] = [pair, copy.deepcopy(rng.choice(tree))]
        elif what == "cut" and len(tree) > 1:
            tree.pop(rng.randrange(len(tree)))
    return changed


def test_no_mutated_certificate_says_more_than_the_truth() -> None:
    assert sum(mutations(seed, 10) for seed in range(60)) >= 20


@pytest.mark.slow
def test_no_certificate_of_ten_thousand_says_more_than_the_truth() -> None:
    assert sum(mutations(seed, 40) for seed in range(400)) >= 1000


def test_tensors_of_half_the_capacity_fall_into_two_groups() -> None:
    """Of ten tensors in two places, five share each: the bytes alone prove 20 pairs."""
    pairs = [(a, b, 1) for b in range(10) for a in range(b)]
    lives = range(10)
    problem = Problem(
        [8] * 10, lives, [step + 1 for step in lives], reuse_prices=pairs, capacity=16
    )
    result = run(problem, "branch-and-bound")
    assert (result.cost, result.cost_bound, result.cost_certificate) == (20, 20, "packing")
    assert result.plan is not None
    proof = certify_cost(problem, 20, result.plan, search, Budget())
    assert check_cost_certificate(certificate_to_fields(problem, proof)).bound == 20


def test_a_bound_that_a_proof_does_not_reach_is_written_as_far_as_it_goes() -> None:
    problem = Problem([4, 4, 2], [0, 2, 4], [2, 4, 6], reuse_prices=[(0, 1, 3)], capacity=6)
    proof = certify_cost(problem, 9, Plan([0, 2, 0], 6), search, Budget())
    proven = check_cost_certificate(certificate_to_fields(problem, proof))
    assert (proven.bound, proven.is_met) == (3, True)
