"""Certificates: what is proven is true, proofs of our searches hold, and broken ones do not."""

from __future__ import annotations

import ast
import copy
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import planners.referee.certificate as referee_of_certificates
from planners import Budget, Graph, Problem, run, write_problem
from planners.compare.__main__ import app as compare
from planners.errors import GaplessError, InstanceError, InvalidCertificateError
from planners.exact import decision_tree
from planners.exact.decision_tree import certify
from planners.files.certificate_file import Certificate, certificate_to_fields
from planners.model.plan import Plan
from planners.referee.__main__ import app as referee
from planners.referee.certificate import check_certificate
from tests.command_line import require_one_line, run_command
from tests.planners.exact.brute_force import optimal_peak
from tests.random_problems import SOLVABLE, random_problem

PENTAGON = Problem([4] * 5, unsafe_pairs=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], name="pentagon")
CYCLE = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]

# Two chains that interlock: 0 over 1 and 2 over 3 leave no room for the other order.
INTERLOCKED = Problem(
    [1, 1, 1, 1], unsafe_pairs=[(0, 2), (1, 3)], contiguous=[(0, 1), (3, 2)], name="interlocked"
)

# Problem, bound, cliques and tree of a proof by the rule of this name. No rule but the one that the
# name says proves so much, and nothing proves one byte more.
PROOFS: dict[str, tuple[Problem, int, list[list[int]], list[int]]] = {
    # The largest tensor lies above its pin.
    "alone": (Problem([3, 5], [0, 1], [1, 2], pinned={1: 4}), 9, [], [-1]),
    "alone, in a chain": (
        Problem([3, 4], [0, 1], [1, 2], alignment=[1, 8], contiguous=[(0, 1)]), 12, [], [-1],
    ),
    "clique, live at one step": (Problem([3, 5, 2], [0, 1, 2], [3, 4, 5]), 10, [[0, 1, 2]], [-1]),
    "clique, of pairs": (
        Problem([3, 5, 2], unsafe_pairs=[(0, 1), (1, 2), (2, 0)]), 10, [[0, 1, 2]], [-1],
    ),
    # Tensors 0 and 1 are used on other streams than tensor 2 is made on.
    "clique, of streams": (
        Problem(
            [3, 5, 2],
            graph=Graph(
                op=["a"] * 6, stream=[0, 1, 0, 1, 2, 2], producer=[0, 1, 4],
                consumers=[[2], [3], [5]], control=[],
            ),
        ),
        10, [[0, 1, 2]], [-1],
    ),
    # Where both are aligned, the upper one begins at 8.
    "pair": (Problem([3, 3], [0, 0], [1, 1], alignment=[8, 8]), 11, [[0, 1]], [-1]),
    # Tensor 2 may not begin at 0, so it begins above the least end of the others, which is 4.
    "clique that raises": (
        Problem([4, 6, 1], [0] * 3, [1] * 3, alignment=[1, 1, 4], pinned={0: 0}), 11,
        [[0, 1, 2]], [-1],
    ),
    "decision": (PENTAGON, 12, CYCLE, [0, 1, -1, -1]),
    "cycle": (INTERLOCKED, 3, [[0, 2], [1, 3]], [-1]),
}  # fmt: skip


def fields_of(
    problem: Problem, bound: int | None, cliques: list[list[int]], tree: list[int]
) -> dict[str, Any]:
    return certificate_to_fields(problem, Certificate(bound, cliques, tree))


def is_refused(fields: dict[str, Any]) -> bool:
    try:
        check_certificate(fields)
    except InvalidCertificateError:
        return True
    return False


@pytest.mark.parametrize("rule", PROOFS)
def test_each_rule_proves_its_bound_and_no_byte_more(rule: str) -> None:
    problem, bound, cliques, tree = PROOFS[rule]
    assert check_certificate(fields_of(problem, bound, cliques, tree)).bound == bound
    assert optimal_peak(problem) == bound
    with pytest.raises(InvalidCertificateError, match="no rule refutes it"):
        check_certificate(fields_of(problem, bound + 1, cliques, tree))
