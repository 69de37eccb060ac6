"""Programs that ExecuTorch plans with a planner of ours: loaded in its runtime, and run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planners import Budget, Plan, Problem, Status, place
from planners.errors import (
    InstanceError,
    InvalidPlanError,
    MissingDependencyError,
    UnknownPlannerError,
)
from planners.integrations.executorch import GaplessPlanner, gapless_planner
from planners.model.places import block_ranges
from planners.registry import register

pytestmark = pytest.mark.executorch

ALIGNMENT = 16


def lowered(program: Any, algorithms: list[Callable[..., Any]], **options: Any) -> Any:
    """Return an ExecuTorch program that is planned by the best of some algorithms."""
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    from executorch.exir.passes import MemoryPlanningPass

    plans = MemoryPlanningPass(
        memory_planning_algo=MemoryPlanningAlgorithmSuite(algorithms), **options
    )
    config = ExecutorchBackendConfig(memory_planning_pass=plans)
    return to_edge(program).to_executorch(config)


def sizes_of(lowered_program: Any) -> list[int]:
    plan = lowered_program.executorch_program.execution_plan[0]
    return [int(size) for size in plan.non_const_buffer_sizes]


def outputs_of(lowered_program: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """Run the program in ExecuTorch's own runtime."""
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(lowered_program.buffer).load_method("forward")
    return [output.clone() for output in method.execute(inputs)]


def exported(forward: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    import torch

    class Called(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return forward(*args)

    return torch.export.export(Called(), inputs)


def branches(size: int) -> Callable[..., Any]:
    """Return a step whose tensors come and go at unlike sizes."""
    import torch

    def forward(x: Any) -> Any:
        wide = torch.cat([x, x * 2, x + 1], dim=1)
        narrow = wide[:, :size].sigmoid()
        again = torch.cat([narrow, wide.tanh()], dim=1)
        return (again.relu() + 1).sum(dim=1) * narrow.sum()

    return forward


def test_a_program_runs_the_same_in_less_memory() -> None:
    import torch
    from executorch.exir.memory_planning import greedy

    inputs = (torch.randn(3, 400),)
    program = exported(branches(100), inputs)
    theirs, ours = gapless_planner("auto"), gapless_planner("greedy-size-first")
    by_greedy = lowered(program, [greedy])
    by_suite = lowered(program, [greedy, theirs, ours])
    assert sum(sizes_of(by_suite)) <= sum(sizes_of(by_greedy))
    for planner in (theirs, ours):
        [planned] = planner.planned
        assert planned.result.status is Status.OPTIMAL
        alone = lowered(program, [planner])
        assert sizes_of(alone) == [0, planned.result.peak]
        for mine, its in zip(outputs_of(alone, inputs), outputs_of(by_greedy, inputs), strict=True):
            assert torch.equal(mine, its)


def test_branches_keep_their_memory() -> None:
    import torch
    from executorch.exir.memory_planning import greedy

    def forward(x: Any, way: Any) -> Any:
        made = torch.cond(
            way.sum() > 0, lambda y: (y + 1).sigmoid(), lambda y: (y * 2).tanh() - y, (x,)
        )
        more = torch.cond(
            x.sum() > 0, lambda y: (y - 3).relu() * y, lambda y: y.tanh() * 5, (made + 1,)
        )
        return (more + 1).tanh() + more

    inputs = (torch.randn(64, 3), torch.ones(2))
    program = exported(forward, inputs)
    planner = gapless_planner("auto")
    ours, theirs = lowered(program, [planner]), lowered(program, [greedy])
    # Four branches, and the graph that calls them.
    assert len(planner.planned) == 5
    assert planner.planned[-1].problem.origin["first_byte"] > 0
    for given in (inputs, (inputs[0], -inputs[1]), (-inputs[0].abs(), inputs[1])):
        for mine, its in zip(outputs_of(ours, given), outputs_of(theirs, given), strict=True):
            assert torch.equal(mine, its)


@pytest.mark.parametrize("inside", list(itertools.product([False, True], repeat=2)))
def test_inputs_and_outputs_of_the_user_are_left_to_him(inside: tuple[bool, bool]) -> None:
    import torch
    from executorch.exir.memory_planning import greedy

    inputs = (torch.randn(7, 90),)
    program = exported(branches(30), inputs)
    options = {"alloc_graph_input": inside[0], "alloc_graph_output": inside[1]}
    planner = gapless_planner("auto")
    ours = lowered(program, [greedy, planner], **options)
    theirs = lowered(program, [greedy], **options)
    [planned] = planner.planned
    assert ("args_0" in (planned.problem.tensor_name or ())) is inside[0]
    assert sum(sizes_of(ours)) <= sum(sizes_of(theirs))
    if inside[1]:
        [mine], [its] = outputs_of(ours, inputs), outputs_of(theirs, inputs)
        assert torch.equal(mine, its)


def spec(size: int, first: int, last: int, memory: int | None = None) -> Any:
    import torch
    from executorch.exir.tensor import TensorSpec

    made = TensorSpec(torch.uint8, torch.Size([size]))
    made.lifetime, made.mem_id = [first, last], memory
    return made


def call(planner: GaplessPlanner, specs: list[Any], padding: int = 0, **module: Any) -> Any:
    graph = SimpleNamespace(graph=SimpleNamespace(nodes=[]), **module)
    return planner(ALIGNMENT, specs, graph, None, padding)


@pytest.mark.parametrize("seed", range(20))
def test_no_two_tensors_of_one_time_share_bytes(seed: int) -> None:
    from executorch.exir.memory_planning import Verifier

    drawn = random.Random(seed)
    specs = []
    for _ in range(30):
        first = drawn.randrange(20)
        specs.append(
            spec(drawn.choice([0, 1, 15, 16, 100, 1000]), first, first + drawn.randrange(8),
                 drawn.choice([None, 1, 3]))
        )  # fmt: skip
    answer = call(gapless_planner("greedy-size-best"), specs, 64, input_mem_buffer_sizes=[0, 40])
    assert len(answer.bufsizes) == 4
    assert answer.bufsizes[2] == 0
    for each, its in answer.spec_dict.items():
        each.mem_id, each.mem_offset, each.mem_obj_id = its.mem_id, its.mem_offset, its.mem_obj_id
        assert its.mem_offset % ALIGNMENT == 0
        assert its.mem_id != 1 or its.mem_offset >= 40
        assert its.mem_offset + each.allocated_memory + 64 <= answer.bufsizes[its.mem_id]
    assert len(answer.spec_dict) == len(specs)
    for one, other in itertools.combinations(specs, 2):
        if Verifier.storage_overlap(one, other):
            assert not Verifier.lifetime_overlap(one, other)
            assert Verifier.mem_obj_id_match(one, other)


@dataclass
class Bank:
    name: str
    size: int
    mem_id: int
    alignment: int | None = None


@pytest.fixture
def first_that_takes(own_registry: None) -> str:  # noqa: ARG001
    """Register a planner that puts the largest tensor first, each into the first bank that can."""

    @register("first-that-takes", memories=True)
    def first_that_takes(problem: Problem, budget: Budget) -> Plan:  # noqa: ARG001
        if not problem.memories:
            return place(problem)
        offsets = np.zeros(problem.tensor_count, dtype=np.int64)
        ranges = block_ranges(problem).tolist()
        placed: list[int] = []
        unsafe = {frozenset(pair) for pair in problem.core.unsafe_pairs().tolist()}
        for tensor in np.argsort(-problem.size, kind="stable").tolist():
            heads = (
                head for block, first, last, modulus, _, _ in ranges
                for head in range(first, last + 1, modulus)
                if block == problem.blocks.block_of[tensor]
            )  # fmt: skip
            size = problem.size
            free = (
                head for head in heads
                if not any(
                    head < offsets[other] + size[other] and offsets[other] < head + size[tensor]
                    for other in placed if frozenset((tensor, other)) in unsafe
                )
            )  # fmt: skip
            # What has no bytes has no range.
            offsets[tensor] = next(free, 0)
            placed.append(tensor)
        return Plan.of(problem, offsets)

    return "first-that-takes"


@pytest.mark.parametrize("seed", range(10))
def test_tensors_lie_in_banks(seed: int, first_that_takes: str) -> None:
    from executorch.exir.memory_planning import Verifier

    drawn = random.Random(seed)
    specs = []
    for _ in range(20):
        first = drawn.randrange(20)
        specs.append(
            spec(drawn.choice([0, 15, 16, 100, 300]), first, first + drawn.randrange(8),
                 drawn.choice([None, None, None, 2, 4]))
        )  # fmt: skip
    pinned = {id(each): each.mem_id for each in specs}
    # The first is the fastest whatever its number; memory 4 is in no bank.
    banks = [Bank("fast", 640, 3, 32), Bank("slow", 1 << 14, 2)]
    planner = gapless_planner(first_that_takes, target=SimpleNamespace(banks=banks))
    answer = call(planner, specs, 16, input_mem_buffer_sizes=[0, 0, 0, 40])
    assert [each.memory for each in planner.planned] == [None, 4]
    cost = sum(each.allocated_memory for each in specs if each.mem_id == 2)
    assert planner.planned[0].result.cost == cost
    assert len(answer.spec_dict) == len(specs)
    for each in specs:
        # What has no bytes may be said to lie anywhere.
        pin = pinned[id(each)] if each.allocated_memory else None
        assert each.mem_id in ({2, 3} if pin is None else {pin}) or pinned[id(each)] == 4
        assert each.mem_offset % (32 if each.mem_id == 3 and each.allocated_memory else 16) == 0
        assert each.mem_offset + each.allocated_memory + 16 <= answer.bufsizes[each.mem_id]
        assert each.mem_id != 3 or not each.allocated_memory or each.mem_offset >= 48
    assert any(each.mem_id == 3 and each.allocated_memory for each in specs)
    assert len(answer.bufsizes) == 5
    assert answer.bufsizes[3] <= 640
    assert answer.bufsizes[2] <= 1 << 14
    for one, other in itertools.combinations(specs, 2):
        if Verifier.storage_overlap(one, other):
            assert not Verifier.lifetime_overlap(one, other)
            assert Verifier.mem_obj_id_match(one, other)


def test_a_program_runs_the_same_in_two_banks(first_that_takes: str) -> None:
    import torch
    from executorch.exir.memory_planning import greedy

    inputs = (torch.randn(3, 40),)
    program = exported(branches(10), inputs)
    banks = [Bank("fast", 1024, 1), Bank("slow", 1 << 20, 2)]
    planner = gapless_planner(first_that_takes, target=SimpleNamespace(banks=banks))
    ours = lowered(program, [planner])
    [planned] = planner.planned
    assert planned.result.cost
    _, fast, slow = sizes_of(ours)
    assert 0 < fast <= 1024 < fast + slow
    assert torch.equal(
        outputs_of(ours, inputs)[0], outputs_of(lowered(program, [greedy]), inputs)[0]
    )


def test_banks_that_are_too_small_are_named() -> None:
    banks = [Bank("fast", 112, 1)]
    planner = gapless_planner(target=SimpleNamespace(banks=banks))
    assert call(planner, [spec(100, 0, 3)]).bufsizes == [0, 112]
    with pytest.raises(InvalidPlanError, match=r"banks of 2 tensors.*memory fast: at least 224"):
        call(planner, [spec(100, 0, 3), spec(100, 2, 5)])
    with pytest.raises(InvalidPlanError, match="may lie in no memory"):
        call(planner, [spec(100, 0, 3)], 16)


def test_a_result_in_place_lies_where_its_base_lies() -> None:
    base, kept, other = spec(100, 0, 2), spec(100, 3, 5), spec(50, 1, 4)
    kept.inplace_base = base
    apart, also = spec(32, 6, 7), spec(32, 6, 7)
    apart.inplace_base = also.inplace_base = spec(32, 0, 6)  # fed in by the user
    answer = call(gapless_planner("auto"), [kept, base, other, apart, also])
    offsets = {id(each): its.mem_offset for each, its in answer.spec_dict.items()}
    assert abs(offsets[id(apart)] - offsets[id(also)]) >= 32
    assert offsets[id(base)] == offsets[id(kept)]
    assert abs(offsets[id(other)] - offsets[id(base)]) in (64, 112)
    assert answer.bufsizes == [0, 176]


def test_a_tensor_may_lie_anywhere_in_its_base() -> None:
    # ExecuTorch 1.5 has these fields; in others they are made here.
    base, within, deeper, other = spec(100, 0, 2), spec(64, 1, 5), spec(16, 2, 3), spec(50, 4, 6)
    within.storage_base, within.storage_base_offset = base, 32
    deeper.storage_base, deeper.storage_base_offset = within, 16
    answer = call(gapless_planner("auto"), [deeper, base, other, within])
    offsets = {id(each): its.mem_offset for each, its in answer.spec_dict.items()}
    assert offsets[id(within)] == offsets[id(base)] + 32
    assert offsets[id(deeper)] == offsets[id(base)] + 48
    objects = {its.mem_obj_id for each, its in answer.spec_dict.items() if each is not other}
    assert len(objects) == 1
    # The base is kept for as long as what lies in it.
    assert answer.bufsizes == [0, 112 + 64]


@pytest.mark.parametrize(
    ("offset", "is_planned", "message"),
    [
        (8, True, "8, a multiple of 16 is needed"),
        (16, False, "byte 16, a tensor of the same memory"),
    ],
)
def test_a_place_in_a_base_that_cannot_be_kept_is_named(
    offset: int, is_planned: bool, message: str
) -> None:
    base, within = spec(100, 0, 2), spec(16, 1, 5)
    within.storage_base, within.storage_base_offset = base, offset
    with pytest.raises(InstanceError, match=message):
        call(gapless_planner(), [base, within] if is_planned else [within])


def test_a_version_whose_suites_serve_one_algorithm_is_refused() -> None:
    with pytest.raises(MissingDependencyError, match=r"executorch>=.*, found \d.*first algorithm"):
        gapless_planner()(ALIGNMENT, iter([spec(16, 0, 1)]), SimpleNamespace(), None)


def test_a_version_with_another_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch.exir.tensor import TensorSpec

    def with_more(self: Any) -> None:
        self.mem_bank = None

    monkeypatch.setattr(TensorSpec, "init_mem_planning_fields", with_more)
    with pytest.raises(MissingDependencyError, match=r"executorch>=.*, found \d.*has mem_bank"):
        gapless_planner()


def test_memories_without_tensors_keep_what_submodules_need() -> None:
    assert call(gapless_planner("auto"), []).bufsizes == [0, 0]
    assert call(gapless_planner("auto"), [], input_mem_buffer_sizes=[0, 48]).bufsizes == [0, 48]


def test_a_memory_that_is_too_small_is_named() -> None:
    specs = [spec(100, 0, 3), spec(100, 2, 5)]
    assert call(gapless_planner(capacities={1: 224}), specs).bufsizes == [0, 224]
    with pytest.raises(InvalidPlanError, match=r"at least 224 B.*capacity is 223"):
        call(gapless_planner(capacities={1: 223}), specs)


def test_a_suite_tells_planners_apart() -> None:
    planners = [gapless_planner(), gapless_planner("homosize"), gapless_planner(seed=1)]
    assert len({planner.__name__ for planner in planners}) == 3


def test_an_unknown_planner_is_known_at_once() -> None:
    with pytest.raises(UnknownPlannerError, match="auto"):
        gapless_planner("aut")


def test_a_planner_is_an_algorithm_of_a_pass_itself() -> None:
    import torch
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass

    inputs = (torch.randn(3, 400),)
    program = exported(branches(100), inputs)
    plans = MemoryPlanningPass(memory_planning_algo=gapless_planner("auto"))
    config = ExecutorchBackendConfig(memory_planning_pass=plans)
    alone = to_edge(program).to_executorch(config)
    in_suite = lowered(program, [gapless_planner("auto")])
    assert sizes_of(alone) == sizes_of(in_suite)
    assert torch.equal(outputs_of(alone, inputs)[0], outputs_of(in_suite, inputs)[0])
