"""The planners of the study of production planners, as it registers them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from planners import Budget, Problem, Status, run

# Two of one size: whoever comes first takes the bottom, and only then is there room for the last.
TIED = Problem([4, 4, 6, 1], [0, 1, 3, 0], [2, 4, 5, 5])


@pytest.fixture(autouse=True)
def planner(bring: Callable[[str], None]) -> None:
    bring("production_planners")


def test_the_published_rule_takes_large_tensors_first_and_of_equal_ones_the_last() -> None:
    result = run(Problem([2, 3, 3, 2], [0, 1, 0, 0], [2, 2, 1, 2]), "tflite-micro-greedy")
    assert result.plan is not None
    assert result.plan.offsets.tolist() == [5, 0, 0, 3]


def test_a_package_that_is_missing_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tinygrad.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "tinygrad", None)
    result = run(TIED, "tinygrad")
    assert result.status is Status.UNSUPPORTED
    assert "pip install 'gapless[compilers]'" in result.reason


@pytest.mark.compilers
@pytest.mark.parametrize(
    "name",
    [
        "executorch-greedy", "executorch-greedy:order=shuffled", "inductor-pools", "omnimalloc",
        "omnimalloc:allocator=supermalloc", "onnxsim", "tinygrad", "vela-greedy",
        "vela-hill-climbing",
    ],
)  # fmt: skip
def test_plans_pass_the_referee(name: str) -> None:
    result = run(TIED, name, Budget(seed=3))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE), result.reason
