"""Certificates of cost: each rule proves the least cost and no more, and each part is needed."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from planners import Problem, write_problem
from planners.compare.__main__ import app as compare
from planners.errors import InstanceError, InvalidCertificateError
from planners.files.certificate_file import certificate_to_fields
from planners.model.certificate import CostCertificate
from planners.referee.__main__ import app as referee
from planners.referee.cost_certificate import check_any_certificate
from tests.command_line import require_one_line, run_command
from tests.planners.exact.brute_force import least_cost


def apart_in_time(size: list[int], capacity: int, *prices: tuple[int, int, int]) -> Problem:
    """Return tensors of which no two are live at once."""
    steps = range(len(size))
    ends = [step + 1 for step in steps]
    return Problem(size, steps, ends, reuse_prices=prices, capacity=capacity, name="priced")


ALL_OF_FOUR = [(a, b, 1) for a, b in combinations(range(4), 2)]
HALF = 1 << 40

# A problem, its least cost, rows, and a tree, by the rule without which there is no proof.
PROOFS: dict[str, tuple[Problem, int, list[dict[str, Any]], list[Any]]] = {
    "bytes": (
        apart_in_time([4, 3], 6, (0, 1, 5)), 5, [{"sets": [[0, 1]], "divisor": 1}],
        [[HALF, 0, 5 * HALF]],
    ),
    "a divisor": (
        apart_in_time([4, 4, 4], 10, (0, 1, 2), (1, 2, 2), (2, 0, 2)), 2,
        [{"sets": [[0, 1, 2]], "divisor": 2}], [[1, 0, 2]],
    ),
    "bytes that fill the capacity twice": (
        apart_in_time([4] * 4, 4, *ALL_OF_FOUR), 6, [{"sets": [[0, 1, 2, 3]], "divisor": 4}],
        [[1, 0, 1]],
    ),
    # The tensor of 2 bytes begins at a multiple of 4, and 3 bytes before it are too few for 4.
    "a core": (
        Problem(
            [4, 2], [0, 1], [1, 2], alignment=[1, 4], pinned={0: 1}, reuse_prices=[(0, 1, 3)],
            capacity=7,
        ),
        3, [{"sets": [[0, 1]], "tree": [0]}], [[1, 0, 3]],
    ),
    "an unsafe pair": (
        Problem(
            [4, 4, 4], unsafe_pairs=[(0, 1)], reuse_prices=[(0, 1, 1), (1, 2, 9), (0, 2, 9)],
            capacity=8,
        ),
        9, [{"sets": [[0, 1, 2]], "divisor": 4}], [[1, 0, 9]],
    ),
    # One of two pairs pays whatever the third does, whose price is no help to the packing.
    "a branch": (
        apart_in_time([4, 4, 4], 8, (0, 1, 3), (1, 2, 5), (2, 0, 4)), 3,
        [{"sets": [[0, 1, 2]], "divisor": 4}], [0, [1, 0, 4], [1]],
    ),
    "what divides all prices": (
        apart_in_time([4, 3], 6, (0, 1, 6)), 6, [{"sets": [[0, 1]], "divisor": 1}], [[2, 0, 1]],
    ),
}  # fmt: skip
UNSAFE = {"an unsafe pair": [0]}


def fields_of(rule: str) -> dict[str, Any]:
    problem, cost, rows, tree = PROOFS[rule]
    proof = CostCertificate(cost, UNSAFE.get(rule, []), rows, tree)
    return json.loads(json.dumps(certificate_to_fields(problem, proof)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("rule", PROOFS)
def test_each_rule_proves_the_least_cost_and_no_more(rule: str) -> None:
    problem, cost, _, _ = PROOFS[rule]
    fields = fields_of(rule)
    proven = check_any_certificate(fields)
    assert (proven.bound, proven.of_cost, proven.is_met) == (cost, True, False)
    assert least_cost(problem) == cost
    with pytest.raises(InvalidCertificateError, match="its rows prove no cost above"):
        check_any_certificate({**fields, "cost": cost + 1})


@pytest.mark.parametrize("rule", PROOFS)
def test_a_proof_needs_its_rows_and_its_tree(rule: str) -> None:
    fields = fields_of(rule)
    broken = [{**fields, "tree": [[1]]}, {**fields, "rows": []}]
    if UNSAFE.get(rule):
        broken.append({**fields, "unsafe": []})
    for changed in broken:
        with pytest.raises((InvalidCertificateError, InstanceError)):
            check_any_certificate(changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [{"sets": [[0, 0]], "divisor": 1}]}, "sets: different tensors of bytes"),
        ({"rows": [{"sets": [[0]], "divisor": 1}]}, "sets: one of more bytes than the capacity"),
        ({"rows": [{"sets": [], "divisor": 1}]}, "sets: one of more bytes than the capacity"),
        ({"rows": [{"sets": [[0, 1]], "divisor": 0}]}, "a divisor above 0, are needed"),
        ({"rows": [{"sets": [[0, 1]] * 2, "divisor": 1}]}, "found 2 of 7 bytes"),
        ({"rows": [{"sets": [[0, 1, 2]], "divisor": 1}]}, "have no price: clique 0: at no step"),
        ({"rows": [{"sets": [[0, 2]], "tree": [0]}]}, "node 1: no rule refutes it"),
        ({"tree": []}, "the tree needs a node after 0"),
        ({"tree": [0, [1]]}, "node 2: its rows prove no cost above 0, with 0 apart"),
        ({"tree": [[1, 0, 5], [1]]}, "the tree ends before node 2"),
        ({"unsafe": [0]}, "have no price: clique 0: at no step"),
        ({"offsets": [0, 0, 5]}, "the plan does not meet the cost"),
        ({"offsets": [0, 4, 0]}, "the plan does not meet the cost"),
    ],
)
def test_what_does_not_hold_is_told(change: dict[str, Any], message: str) -> None:
    problem = apart_in_time([4, 3, 2], 6, (0, 1, 5))
    proof = CostCertificate(5, [], [{"sets": [[0, 1]], "divisor": 1}], [[1, 0, 5]])
    fields = certificate_to_fields(problem, proof)
    assert check_any_certificate({**fields, "offsets": [0, 0, 4]}).is_met
    with pytest.raises(InvalidCertificateError) as refused:
        check_any_certificate({**fields, **change})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": -1}, "field cost"),
        ({"cost": 1.5}, "field cost"),
        ({"unsafe": [1]}, "field unsafe: whole numbers from 0 to 0"),
        ({"rows": {}}, "field rows"),
        ({"rows": [3]}, "field rows"),
        ({"rows": [{"sets": [[0, 1]]}]}, "field rows.tree: missing"),
        ({"rows": [{"sets": [[0, 2]], "divisor": 1}]}, "field sets"),
        ({"rows": [{"sets": [[0, 1]], "divisor": "1"}]}, "field divisor"),
        ({"rows": [{"sets": [[0, 1]], "tree": [9]}]}, "field tree"),
        ({"tree": 0}, "field tree"),
        ({"tree": [1]}, "field tree, node 1: whole numbers from 0 to 0"),
        ({"tree": ["a"]}, "field tree"),
        ({"tree": [[0, 0, 1]]}, "field tree: a divisor above 0"),
        ({"tree": [[1, 0]]}, "field tree: a divisor above 0"),
        ({"tree": [[]]}, "field tree: a divisor above 0"),
        ({"tree": [[1, 1, 5]]}, "field tree: whole numbers from 0 to 0"),
        ({"tree": [[1, 0, -5]]}, "field tree"),
        ({"bound": 3}, "field bound: unknown"),
    ],
)
def test_a_certificate_that_breaks_the_format_is_a_mistake_of_the_file(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InstanceError) as refused:
        check_any_certificate({**fields_of("bytes"), **change})
    assert message in str(refused.value)


def test_a_divisor_rounds_the_bytes_of_a_pair_up() -> None:
    """One pair of 3 bytes is enough for 3 bytes, though twice 2 are needed for them."""
    problem = apart_in_time([4, 4, 3], 8, (0, 1, 1), (1, 2, 1), (2, 0, 1))
    proof = CostCertificate(2, [], [{"sets": [[0, 1, 2]], "divisor": 2}], [[1, 0, 1]])
    with pytest.raises(InvalidCertificateError, match="its rows prove no cost above 1"):
        check_any_certificate(certificate_to_fields(problem, proof))
    assert least_cost(problem) == 1


def test_a_problem_without_prices_has_no_cost() -> None:
    fields = fields_of("bytes")
    del fields["problem"]["reuse_prices"]
    with pytest.raises(InstanceError, match="field problem: a capacity and prices of reuse"):
        check_any_certificate(fields)


def test_a_least_cost_round_trip(tmp_path: Path) -> None:
    instance, proof = tmp_path / "priced.json", tmp_path / "proof.json"
    problem = apart_in_time([4] * 4, 4, *ALL_OF_FOUR)
    write_problem(problem, instance)
    said = run_command(compare, instance, "--planners", "auto", "--certificate", proof)
    assert said.exit_code == 0
    assert "gap to cost bound: above packing, 6" in said.output
    said = run_command(referee, proof, instance)
    assert said.stdout.startswith(
        "proven: no plan of priced within 4 B costs less than 6, and a plan costs this: it is "
        "optimal; sha256:"
    )
    for other in (problem.with_capacity(5), apart_in_time([4] * 4, 4, *ALL_OF_FOUR[:5])):
        write_problem(other, instance)
        said = run_command(referee, proof, instance)
        assert said.exit_code == 1
        assert said.stdout.startswith("not proven: it is about other prices or another capacity")
    proof.write_text("[]")
    require_one_line(run_command(referee, proof), "an object")
