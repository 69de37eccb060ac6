"""Each package's own planner on the same tensors: valid plans, peaks that are known."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from evaluation.peers.compiler_peers import (
    plan_by_executorch,
    plan_by_inductor,
    plan_by_onnxsim,
    plan_by_tinygrad,
    plan_by_vela_greedy,
    plan_by_vela_hill_climbing,
)
from evaluation.peers.omnimalloc_peer import plan_by_omnimalloc
from evaluation.peers.plain_lifetimes import PlainLifetimes, plain_lifetimes
from instances.catalogue.catalogue_file import FOLDER
from instances.extract.executorch.lowering import lower
from instances.extract.executorch.networks import NETWORKS
from planners import Budget, Plan, Problem, Safety, place
from planners.errors import MissingDependencyError
from planners.files.problem_file import read_gapless_json
from planners.referee.naive import find_violation
from planners.testing.random_problems import random_problem


def plan_by_greedy_by_size(lifetimes: PlainLifetimes) -> Plan:
    return plan_by_omnimalloc(lifetimes, "greedy_by_size", Budget())


# With the module whose absence is said.
PEERS = {
    plan_by_executorch: "executorch",
    plan_by_inductor: "torch",
    plan_by_onnxsim: "onnxsim",
    plan_by_tinygrad: "tinygrad",
    plan_by_vela_greedy: "ethosu",
    plan_by_vela_hill_climbing: "ethosu",
    plan_by_greedy_by_size: "omnimalloc",
}
Peer = Callable[[PlainLifetimes], Plan]


@pytest.mark.parametrize(("peer", "module"), PEERS.items())
def test_a_package_that_is_missing_is_named_with_its_extra(
    peer: Peer, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is loaded already is found without its package.
    for loaded in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, module, None)
    problem = Problem([1, 2], [0, 0], [1, 1])
    with pytest.raises(MissingDependencyError, match=r"pip install 'gapless\["):
        peer(plain_lifetimes(problem, "a package"))


@pytest.mark.compilers
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("alignment", [1, 16])
def test_plans_are_valid(peer: Peer, alignment: int) -> None:
    for seed in range(10):
        drawn = random_problem(Random(seed), Safety.LIFETIMES, (1, 40), features=frozenset())
        problem = Problem(
            drawn.size, drawn.start, drawn.end, alignment=[alignment] * drawn.tensor_count
        )
        plan = peer(plain_lifetimes(problem, "a package", seed))
        assert find_violation(problem, plan) is None


#   offset
#     4 |. 1 1 .      0 and 1 meet, 1 and 2 meet; 2 may have the place of 0
#     0 |0 0 2 2
#        0 1 2 3
CHAIN = Problem([4, 2, 4], [0, 1, 2], [2, 3, 4])


@pytest.mark.compilers
@pytest.mark.parametrize("peer", PEERS)
def test_memory_is_used_again_once_its_last_step_is_over(peer: Peer) -> None:
    assert peer(plain_lifetimes(CHAIN, "a package")).peak == 6


@pytest.mark.compilers
@pytest.mark.parametrize("peer", PEERS)
def test_tensors_read_and_made_in_a_step_lie_apart(peer: Peer) -> None:
    meeting = Problem([3, 3], [0, 2], [3, 4])
    assert peer(plain_lifetimes(meeting, "a package")).peak == 6


@pytest.mark.compilers
def test_rules_of_one_order_and_one_fit_agree() -> None:
    for seed in range(10):
        drawn = random_problem(Random(seed), Safety.LIFETIMES, (1, 40), features=frozenset())
        problem = Problem(drawn.size, drawn.start, drawn.end)
        lifetimes = plain_lifetimes(problem, "a package")
        by_size = -problem.size.astype(np.float64)
        assert plan_by_onnxsim(lifetimes).peak == place(problem, by_size, "best").peak


@pytest.mark.executorch
def test_greedy_on_an_instance_is_greedy_in_the_lowering() -> None:
    from executorch.exir.memory_planning import greedy

    program = lower(NETWORKS["bert-tiny"], greedy).executorch_program
    problem = read_gapless_json(FOLDER / "executorch-bert-tiny.json.gz")
    plan = plan_by_executorch(plain_lifetimes(problem, "ExecuTorch"))
    assert program.execution_plan[0].non_const_buffer_sizes == [0, plan.peak]
