"""Certificates: accepted ones are true, and proofs of our searches are accepted."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

import planners.referee.certificate as checker
from planners import Budget, Graph, Problem, run, write_problem
from planners.compare.__main__ import app as compare
from planners.errors import GaplessError, InstanceError, InvalidCertificateError
from planners.exact import decision_tree
from planners.exact.decision_tree import certify
from planners.files.certificate_file import certificate_to_fields
from planners.files.file_limits import Allowance, ReadingWork
from planners.model.certificate import Certificate
from planners.referee.__main__ import app as referee
from planners.referee.certificate import check_certificate
from tests.command_line import require_one_line, run_command
from tests.planners.exact.brute_force import optimal_peak
from tests.planners.exact.search_cases import varied_problem

RING = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]
PENTAGON = Problem([4] * 5, unsafe_pairs=RING, name="pentagon")


def beside_a_pentagon(
    size: list[int], alignment: tuple[int, int], cliques: list[list[int]]
) -> Problem:
    """Return two chains of two beside a pentagon whose optimum leaves them much room."""
    return Problem(
        [1 << 30] * 5 + size,
        alignment=[1] * 5 + [alignment[0], 1, alignment[1], 1],
        contiguous=[(5, 6), (7, 8)],
        unsafe_pairs=[*RING, *cliques],
    )


# A problem, the smallest peak, cliques and a tree, by the rule without which there is no proof.
PROOFS: dict[str, tuple[Problem, int, list[list[int]], list[int]]] = {
    "alone, pinned": (Problem([3, 5], [0, 1], [1, 2], pinned={1: 4}), 9, [], [0]),
    "alone, aligned in a chain": (
        Problem([3, 4], [0, 1], [1, 2], alignment=[1, 8], contiguous=[(0, 1)]), 12, [], [0],
    ),
    "clique of a step": (Problem([3, 5, 2], [0, 1, 2], [3, 4, 5]), 10, [[0, 1, 2]], [0]),
    "clique of pairs": (
        Problem([3, 5, 2], unsafe_pairs=[(0, 1), (1, 2), (2, 0)]), 10, [[0, 1, 2]], [0],
    ),
    # At no step are all three live, and no stream waits for another.
    "clique of streams": (
        Problem(
            [3, 5, 2],
            graph=Graph(
                op=["a"] * 6, stream=[0, 1, 0, 1, 2, 2], producer=[0, 1, 4],
                consumers=[[2], [3], [5]], control=[],
            ),
        ),
        10, [[0, 1, 2]], [0],
    ),
    "pair": (Problem([3, 3], [0, 0], [1, 1], alignment=[8, 8]), 11, [[0, 1]], [0]),
    # Tensor 1 may not be the lowest of the second clique.
    "clique that raises": (
        Problem(
            [4, 4, 4, 6], [0, 0, 0, 1], [1, 2, 2, 2], alignment=[1, 2, 4, 1], pinned={0: 0}
        ),
        16, [[0, 1, 2], [1, 2, 3]], [0],
    ),
    # Tensor 4 keeps tensors 1 to 3 at 8 or above, and they have 12 bytes.
    "part of a clique": (
        Problem(
            [4, 4, 4, 4, 8], pinned={0: 0, 4: 0},
            unsafe_pairs=[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 1), (4, 2), (4, 3)],
        ),
        20, [[0, 1, 2, 3], [4, 1], [4, 2], [4, 3]], [0],
    ),
    "decision": (PENTAGON, 12, RING, [2, 0, 1, 0, 0]),
    # b >= a + 1 and a >= b + 1, where a and b are the offsets of both chains.
    "cycle": (
        beside_a_pentagon([1, 1, 1, 1], (1, 1), [[5, 7], [8, 6]]), 3 << 30,
        [*RING, [5, 7], [8, 6]], [2, 5, 7, 2, 8, 6, 0, 2, 0, 1, 0, 0, 2, 0, 1, 0, 0],
    ),
    # b = a + 1, where a and b are multiples of 4.
    "cycle of alignments": (
        beside_a_pentagon([2, 1, 1, 1], (4, 4), [[5, 8], [7, 6]]), 3 << 30,
        [*RING, [5, 8], [7, 6]], [2, 5, 8, 2, 7, 6, 0, 2, 0, 1, 0, 0, 2, 0, 1, 0, 0],
    ),
}  # fmt: skip


def fields_of(
    problem: Problem, bound: int | None, cliques: list[list[int]], tree: list[int]
) -> dict[str, Any]:
    return certificate_to_fields(problem, Certificate(bound, cliques, tree))


@pytest.mark.parametrize("rule", PROOFS)
def test_each_rule_proves_the_optimum_and_no_byte_more(rule: str) -> None:
    problem, bound, cliques, tree = PROOFS[rule]
    assert check_certificate(fields_of(problem, bound, cliques, tree)).bound == bound
    assert optimal_peak(problem) == bound
    with pytest.raises(InvalidCertificateError, match="no rule refutes it"):
        check_certificate(fields_of(problem, bound + 1, cliques, tree))


def test_decisions_that_raise_a_block_below_an_alignment_are_not_a_cycle() -> None:
    _, bound, cliques, _ = PROOFS["cycle of alignments"]
    tree = [2, 7, 6, 2, 5, 8, 0, 2, 0, 1, 0, 0, 2, 0, 1, 0, 0]
    # Only the second chain is aligned: b = 4 and a = 3 satisfy the decisions.
    problem = beside_a_pentagon([2, 1, 1, 1], (1, 4), [[5, 8], [7, 6]])
    with pytest.raises(InvalidCertificateError, match="refutes it, with 5 below 8, 7 below 6"):
        check_certificate(fields_of(problem, bound, cliques, tree))


@pytest.mark.parametrize("rule", [rule for rule, proof in PROOFS.items() if proof[2]])
def test_a_proof_needs_its_cliques_and_its_decisions(rule: str) -> None:
    problem, bound, cliques, tree = PROOFS[rule]
    broken = [fields_of(problem, bound, cliques[1:], tree)]
    if len(tree) > 1:
        broken.append(fields_of(problem, bound, cliques, [0]))
    for fields in broken:
        with pytest.raises(InvalidCertificateError, match=r"^node \d+: "):
            check_certificate(fields)


@pytest.mark.parametrize(
    ("cliques", "message"),
    [
        ([[0, 2]], r"clique 0: tensors \(0, 2\) are not unsafe"),
        ([[1, 0, 1]], "clique 0: different tensors"),
        ([[]], "clique 0: different tensors"),
    ],
)
def test_a_clique_of_pairs_is_unsafe(cliques: list[list[int]], message: str) -> None:
    with pytest.raises(InvalidCertificateError, match=message):
        check_certificate(fields_of(PENTAGON, 8, cliques, [0]))


def test_a_clique_of_lifetimes_is_live_at_one_step_and_has_bytes() -> None:
    apart = Problem([3, 5, 0], [0, 0, 0], [9, 9, 9], gaps=[(0, 4, 9), (1, 0, 4)])
    with pytest.raises(InvalidCertificateError, match="clique 0: at no step"):
        check_certificate(fields_of(apart, 8, [[0, 1]], [0]))
    with pytest.raises(InvalidCertificateError, match="clique 0: different tensors of bytes"):
        check_certificate(fields_of(apart, 3, [[0, 2]], [0]))


def test_a_clique_of_streams_has_no_tensor_that_is_dead_before_another() -> None:
    graph = Graph(
        op=["a"] * 4, stream=[0, 0, 1, 1], producer=[0, 2], consumers=[[1], [3]], control=[(1, 2)]
    )
    with pytest.raises(InvalidCertificateError, match=r"tensors \(0, 1\) are not unsafe"):
        check_certificate(fields_of(Problem([3, 5], graph=graph), 8, [[1, 0]], [0]))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([], "node 1: no tensors of common cliques []"),
        ([2, 0, 1, 0], "node 3: no tensors of common cliques []"),
        ([2, 0, 1, 0, 2, 1], "node 3: no tensors of common cliques [1]"),
        ([1, 0, 0], "node 1: no tensors of common cliques [0]"),
        ([2, 0, 2, 0, 0], "node 1: no tensors of common cliques [0, 2]"),
        ([3, 0, 1, 2, 0, 0, 0], "node 1: no tensors of common cliques [0, 1, 2]"),
        ([2, 0, 0, 0, 0], "node 1: no tensors of common cliques [0, 0]"),
        ([2, 0, 1, 0, 0, 0], "the tree ends after 5 entries, found 6"),
    ],
)
def test_a_tree_is_whole_and_decides_pairs_of_cliques(tree: list[int], message: str) -> None:
    with pytest.raises(InvalidCertificateError) as refused:
        check_certificate(fields_of(PENTAGON, 12, RING, tree))
    assert message in str(refused.value)


def test_a_plan_in_the_file_meets_the_bound() -> None:
    fields = fields_of(PENTAGON, 12, RING, [2, 0, 1, 0, 0])
    assert not check_certificate(fields).is_met
    assert check_certificate({**fields, "offsets": [0, 4, 0, 4, 8]}).is_met
    for offsets in ([0, 4, 0, 4, 9], [0, 4, 0, 4, 0], [0, 4, 0, 4]):
        with pytest.raises(InvalidCertificateError, match="the plan does not meet the bound"):
            check_certificate({**fields, "offsets": offsets})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "gapless-plan"}, "field format"),
        ({"version": 2}, "field version"),
        ({"bound": -1}, "field bound"),
        ({"bound": 1 << 63}, "field bound"),
        ({"cliques": {}}, "field cliques"),
        ({"cliques": [0]}, "field cliques, entry 0"),
        ({"cliques": [[0, 5]]}, "field cliques, entry 0: whole numbers from 0 to 4"),
        ({"tree": [True]}, "field tree"),
        ({"tree": [-1]}, "field tree: whole numbers from 0 to 5"),
        ({"tree": [2, 5, 0, 0, 0]}, "field tree, node 1: whole numbers from 0 to 4"),
        ({"offsets": 3}, "field offsets"),
        ({"problem": {}}, "field format: missing"),
        ({"more": 1}, "field more: unknown"),
    ],
)
def test_a_certificate_that_breaks_the_format_is_a_mistake_of_the_file(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InstanceError) as refused:
        check_certificate({**fields_of(PENTAGON, 12, RING, [2, 0, 1, 0, 0]), **change})
    assert message in str(refused.value)


def of_streams(tensors: int) -> Problem:
    """Return tensors that are born one after the other, each on a stream of its own."""
    nodes = list(range(tensors))
    consumers: list[list[int]] = [[] for _ in nodes]
    graph = Graph(op=["a"] * tensors, stream=nodes, producer=nodes, consumers=consumers, control=[])
    return Problem([1] * tensors, graph=graph)


def live_at_once(tensors: int) -> Problem:
    return Problem([1] * tensors, [0] * tensors, [1] * tensors)


LARGE: dict[str, Callable[[int], dict[str, Any]]] = {
    "cliques": lambda n: fields_of(live_at_once(n), n, [[0]] * n + [list(range(n))], [0]),
    "a clique": lambda n: fields_of(live_at_once(n), n, [list(range(n))], [0]),
    "a clique of pairs": lambda n: fields_of(
        Problem([1] * n, unsafe_pairs=list(combinations(range(n), 2))), n, [list(range(n))], [0]
    ),
    "a clique of streams": lambda n: fields_of(of_streams(n), n, [list(range(n))], [0]),
    "decisions, each again": lambda n: fields_of(
        live_at_once(n), n, [list(range(n))], [2, 0, 1] * n + [0] * (n + 1)
    ),
    "a plan": lambda n: {
        **fields_of(live_at_once(n), n, [list(range(n))], [0]), "offsets": list(range(n)),
    },
    "a plan of streams": lambda n: {
        **fields_of(of_streams(n), n, [list(range(n))], [0]), "offsets": list(range(n)),
    },
}  # fmt: skip
"""Certificates of so many tensors, by what takes the steps of their checks."""


@pytest.mark.parametrize("what", LARGE)
def test_steps_of_a_check_grow_with_the_file(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[ReadingWork] = []

    def counted(allowance: Allowance, size: int) -> ReadingWork:
        checks.append(ReadingWork(allowance, size))
        return checks[-1]

    monkeypatch.setattr(checker, "ReadingWork", counted)
    steps = []
    for tensors in (100, 200):
        fields = LARGE[what](tensors)
        assert check_certificate(fields).bound == tensors
        steps.append(checks[-1].done / len(json.dumps(fields)))
    assert 0.1 < steps[1] <= 1.1 * steps[0]


def test_decisions_that_raise_blocks_byte_by_byte_end_with_the_steps_of_the_file() -> None:
    problem = Problem(
        [1] * 5, alignment=[1, 1, 1, 1, 1 << 40], contiguous=[(0, 1), (2, 3)],
        unsafe_pairs=[(0, 2), (3, 1), (0, 4)],
    )  # fmt: skip
    # 0 below 2 and 3 below 1 raise both chains in turn; the alignment of 4 allows them 2**40 turns.
    tree = [2, 0, 4, 2, 0, 2, 2, 3, 1, 0, 0, 0, 0]
    with pytest.raises(
        InstanceError, match=r"a file of \d+ bytes may ask for \d+ steps of a check"
    ):
        check_certificate(fields_of(problem, 1 << 62, [[0, 2], [3, 1], [0, 4]], tree))


@pytest.mark.parametrize("seed", range(150))
def test_the_proof_of_a_smallest_peak_is_accepted_and_mutated_ones_prove_nothing_false(
    seed: int,
) -> None:
    rng = Random(seed)
    problem = varied_problem(rng, (1, 7)).with_capacity(None)
    best = optimal_peak(problem)
    found = run(problem, "branch-and-bound", Budget(node_limit=20_000))
    if best is None:
        fields = certificate_to_fields(problem, certify(problem, 0, "", None, Budget()))
        assert check_certificate(fields).bound is None
        return
    assert found.peak == found.lower_bound == best
    # The decisions prove also a bound that has a witness.
    by_search = best and decision_tree.refute(problem, best, Budget().started())
    proofs = [certify(problem, best, found.certificate, found.plan, Budget())]
    proofs += [Certificate(best, *by_search)] if by_search else []
    for proof in proofs:
        fields = certificate_to_fields(problem, proof)
        proven = check_certificate(fields)
        assert (proven.bound, proven.is_met) == (best, proof.plan is not None)
        fields.pop("offsets", None)
        with pytest.raises(InvalidCertificateError):
            check_certificate({**fields, "bound": best + 1})
        with pytest.raises(InvalidCertificateError):
            check_certificate({**fields, "bound": None})
        for _ in range(20):
            mutated = mutate(rng, fields, problem.tensor_count)
            try:
                bound = check_certificate(mutated).bound
            except GaplessError:
                continue
            assert bound is not None
            assert bound <= best


def mutate(rng: Random, fields: dict[str, Any], tensors: int) -> dict[str, Any]:
    """Return fields with one to three changes of the bound, the cliques or the tree."""
    changed = copy.deepcopy(fields)
    for _ in range(rng.randint(1, 3)):
        what = rng.choice(["bound", "clique", "merge", "tree", "cut"])
        cliques, tree = changed["cliques"], changed["tree"]
        if what == "bound":
            changed["bound"] += rng.choice([-1, 1, 1, 2, 8])
        elif what == "clique":
            cliques.append([rng.randrange(tensors) for _ in range(rng.randint(1, 3))])
        elif what == "merge" and len(cliques) > 1:
            cliques.append(sorted({*cliques[0], *cliques.pop()}))
        elif what == "tree" and tree:
            tree[rng.randrange(len(tree))] = rng.randrange(tensors)
        elif what == "cut" and tree:
            at = rng.randrange(len(tree))
            tree[at : at + rng.randint(1, 4)] = [0]
    return changed


def test_infeasible_by_search_round_trip(tmp_path: Path) -> None:
    instance, proof = tmp_path / "pentagon.json", tmp_path / "proof.json"
    write_problem(PENTAGON.with_capacity(11), instance)
    said = run_command(compare, instance, "--planners", "branch-and-bound", "--certificate", proof)
    assert said.exit_code == 3
    fields = json.loads(proof.read_text())
    # What is printed about the instance is read from the instance.
    fields["problem"].update(name="bert-large", capacity=9)
    proof.write_text(json.dumps(fields))
    for given, told in (
        ((), "the problem has a peak below 12 B (12)"),
        (
            (instance,),
            "pentagon has a peak below 12 B (12), so none fits its capacity of 11 B (11)",
        ),
    ):
        said = run_command(referee, proof, *given)
        assert said.exit_code == 0
        assert said.stdout.startswith(f"proven: no plan of {told}")
        assert said.stdout.count("\n") == 1
    fields["tree"] = [0]
    proof.write_text(json.dumps(fields))
    said = run_command(referee, proof)
    assert (said.exit_code, said.stdout) == (
        1,
        "not proven: node 1: no rule refutes it, with nothing\n",
    )


@pytest.mark.parametrize("planner", ["auto", "greedy-size-best", "branch-and-bound"])
def test_an_optimum_that_meets_a_bound_round_trip(tmp_path: Path, planner: str) -> None:
    instance, proof = tmp_path / "three.json", tmp_path / "proof.json.gz"
    write_problem(Problem([3, 5, 2], [0, 1, 2], [3, 4, 5], name="three"), instance)
    said = run_command(compare, instance, "--planners", planner, "--certificate", proof)
    assert said.exit_code == 0
    said = run_command(referee, proof, instance)
    assert said.exit_code == 0
    assert "below 10 B (10), and a plan has this peak: it is optimal; sha256:" in said.stdout


def test_a_certificate_is_about_its_instance(tmp_path: Path) -> None:
    instance, other, proof = (tmp_path / name for name in ("a.json", "b.json", "proof.json"))
    write_problem(PENTAGON, instance)
    write_problem(Problem([4] * 5, unsafe_pairs=RING[1:]), other)
    run_command(compare, instance, "--planners", "auto", "--certificate", proof)
    said = run_command(referee, proof, other)
    assert said.exit_code == 1
    assert said.stdout.startswith("not proven: it is about sha256:")
    require_one_line(run_command(referee, instance), "field format: 'gapless-certificate'")


def test_a_proof_that_takes_too_much_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_tree, "NODES_OF_TURNS", (1,))
    instance, proof = tmp_path / "pentagon.json", tmp_path / "proof.json"
    write_problem(PENTAGON, instance)
    said = run_command(compare, instance, "--planners", "auto", "--certificate", proof)
    assert said.exit_code == 2
    assert "decisions on pairs did not prove the 12 bytes of auto" in said.stderr
    assert not proof.exists()


def test_the_checker_is_short_and_imports_no_search() -> None:
    text = Path(checker.__file__).read_text()
    assert len(text.splitlines()) <= 300
    named = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert {name for name in named if name and name.startswith("planners")} == {
        "planners.errors", "planners.files.file_limits", "planners.files.json_file",
        "planners.files.problem_file", "planners.model.plan", "planners.model.problem",
        "planners.referee.naive",
    }  # fmt: skip
