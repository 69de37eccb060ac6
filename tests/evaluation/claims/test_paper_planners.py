"""The planners that the papers' studies bring along."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from evaluation.claims.safety import PLANNER
from instances.synthetic import training_graph
from planners import Problem, Status, registry, run
from tests.definitions import unsafe_by_paths
from tests.evaluation.claims.shipped_claims import STUDIES

PROBLEM = training_graph(60, streams=4, chains=4, chain_length=3, seed=1)


@pytest.fixture(autouse=True)
def own_planners() -> Iterator[None]:
    for name in ("unsafe_pairs", "merged_chains"):
        registry.load_plugin(STUDIES / f"{name}.py")
    yield
    for name in (PLANNER, "merged-chains"):
        registry.remove(name)


def test_every_algorithm_finds_the_same_pairs() -> None:
    assert PROBLEM.graph is not None
    pairs = len(unsafe_by_paths(PROBLEM.graph))
    found = [
        run(PROBLEM, f"unsafe-pairs:algorithm={algorithm}:rounds=2").statistics
        for algorithm in ("1", "1opt", "2", "clocks")
    ]
    assert [statistics["unsafe_pairs"] for statistics in found] == [pairs] * 4
    assert len({statistics["relation"] for statistics in found}) == 1
    assert found[0]["streams"] == 4


def test_another_graph_has_another_digest() -> None:
    other = training_graph(60, streams=4, seed=2)
    first, second = (run(each, "unsafe-pairs").statistics for each in (PROBLEM, other))
    assert first["relation"] != second["relation"]


def test_lifetimes_alone_are_not_supported() -> None:
    assert run(Problem([1], [0], [1]), "unsafe-pairs").status is Status.UNSUPPORTED


@pytest.mark.parametrize("settings", ["", ":order=unsafe", ":fit=best", ":objects=true"])
def test_merged_chains_make_a_valid_plan(settings: str) -> None:
    result = run(PROBLEM, f"merged-chains{settings}")
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)


def test_a_merged_chain_is_needed_whenever_a_member_is() -> None:
    # Two members that are never alive together, and a tensor beside each of them.
    problem = Problem([4, 1, 4, 1], [0, 2, 2, 0], [2, 4, 4, 2], contiguous=[(0, 1)])
    assert run(problem, "greedy-size-first").peak == 5
    merged = run(problem, "merged-chains")
    assert merged.plan is not None
    assert np.array_equal(merged.plan.offsets[:2], [0, 4])
    assert merged.peak == 9


@pytest.mark.parametrize("field", [{"alignment": [4, 1]}, {"pinned": {0: 0}}])
def test_what_a_merged_chain_cannot_have(field: dict[str, object]) -> None:
    problem = Problem([4, 4], [0, 0], [1, 1], **field)  # type: ignore[arg-type]
    assert run(problem, "merged-chains").status is Status.UNSUPPORTED
