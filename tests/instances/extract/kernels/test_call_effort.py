"""Operations and bytes of traced calls, and what of a step may run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.step_settings import StepSettings
from planners import Problem
from planners.model.graph import Graph
from planners.model.work import BACKWARD, FORWARD, Work

if TYPE_CHECKING:
    import torch
    from torch import Tensor

pytestmark = pytest.mark.torch

BATCH, CHANNELS, PIXELS = 2, 4, 6


def make_network(groups: int = 1) -> tuple[torch.nn.Module, dict[str, Tensor]]:
    """A network with a batch norm, changes in place, dropout and attention."""
    import torch
    from torch.nn import functional

    from tests.instances.extract.output import Output

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift = torch.nn.Conv2d(3, CHANNELS, 1)
            self.convolution = torch.nn.Conv2d(CHANNELS, CHANNELS, 3, groups=groups)
            self.norm = torch.nn.BatchNorm2d(CHANNELS)
            self.head = torch.nn.Linear(CHANNELS, CHANNELS)

        def forward(self, image: Tensor) -> Output:
            hidden = self.norm(self.convolution(self.lift(image)))
            hidden = functional.relu(hidden, inplace=True)
            tokens = functional.dropout(hidden.flatten(2).transpose(1, 2), 0.5, self.training)
            tokens = self.head(tokens).unsqueeze(1)
            return Output(functional.scaled_dot_product_attention(tokens, tokens, tokens).sum())

    return Network(), {"image": torch.ones(BATCH, 3, PIXELS, PIXELS)}


def extracted(build: Callable[[], Any] = make_network) -> Problem:
    from instances.extract.record.graph.optimizers import Sgd
    from instances.extract.record.graph.training_step import trace_training_step

    return build_problem(trace_training_step(build, Sgd(), 0), StepSettings(), "network", {})


def work_of(problem: Problem) -> tuple[Graph, Work]:
    assert problem.graph is not None
    assert problem.graph.work is not None
    return problem.graph, problem.graph.work


def test_all_operations_are_those_that_pytorch_counts() -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    from instances.extract.record.gpu.gpu_kernels import gpu_kernels

    with FakeTensorMode(), gpu_kernels(), FlopCounterMode(display=False) as counter:
        module, batch = make_network()
        torch.autograd.grad(module(**batch).loss, list(module.parameters()))
    assert counter.get_total_flops() > 0
    assert work_of(extracted())[1].flops.sum() == counter.get_total_flops()


def test_convolutions_compute_within_their_groups() -> None:
    graph, work = work_of(extracted(lambda: make_network(groups=CHANNELS)))
    positions = BATCH * (PIXELS - 2) ** 2
    forward = [f for op, f in zip(graph.op, work.flops, strict=True) if op == "convolution"]
    backward = [
        f for op, f in zip(graph.op, work.flops, strict=True) if op == "convolution_backward"
    ]
    lift = 2 * BATCH * PIXELS**2 * 3 * CHANNELS
    grouped = 2 * positions * 9 * CHANNELS
    assert forward == [lift, grouped]
    # Gradients of input and weight; the image needs none.
    assert backward == [2 * grouped, lift]


def test_bytes_of_views_parameters_and_changes_in_place() -> None:
    graph, work = work_of(extracted())
    # Of each operator, the first call.
    moved = dict(zip(graph.op[::-1], work.moved_bytes[::-1].tolist(), strict=True))
    activation = 4 * BATCH * CHANNELS * (PIXELS - 2) ** 2
    assert moved["relu_"] == 2 * activation
    # The weight is a view, transposed; the bias is not expanded before it is added.
    assert moved["mm"] == 2 * activation + 4 * CHANNELS**2
    assert moved["add"] == 2 * activation + 4 * CHANNELS
    # The batch norm reads its parameters and running statistics, and returns those of the batch.
    assert moved["native_batch_norm"] == 2 * activation + 6 * 4 * CHANNELS
    # The mask has a byte an element.
    assert moved["native_dropout"] == 2 * activation + activation // 4


def test_a_tensor_to_write_into_counts() -> None:
    import torch

    from instances.extract.kernels.call_effort import effort_of_call
    from instances.extract.kernels.storages import Effort

    add = torch.ops.aten.add.out
    one, other, result = torch.ones(2), torch.ones(2), torch.ones(2)
    assert effort_of_call(add, (one, other), {"out": result}, result) == Effort(0, 4 * 8)


def test_only_repeatable_operators_may_run_again() -> None:
    problem = extracted()
    graph, work = work_of(problem)
    of_forward = {
        op: bool(again)
        for op, again, phase in zip(graph.op, work.repeatable, work.phase, strict=True)
        if phase == FORWARD
    }
    # add_ counts the batches that the norm has seen.
    assert {op for op, again in of_forward.items() if not again} == {"input", "add_"}
    assert {"native_batch_norm", "native_dropout", "relu_", "convolution"} <= of_forward.keys()
    assert all(work.repeatable[work.phase == BACKWARD][:-1])
    assert not work.repeatable[-1]


def test_a_change_in_place_is_of_the_tensor_that_another_made() -> None:
    problem = extracted()
    graph, work = work_of(problem)
    ((_, tensor),) = (pair for pair in work.written.tolist() if graph.op[pair[0]] == "relu_")
    assert graph.op[graph.producer[tensor]] == "native_batch_norm"
    assert {graph.op[node] for node, _ in work.written.tolist()} == {"relu_", "all_reduce"}


@pytest.mark.torch
def test_attention_with_shared_heads_counts_every_head() -> None:
    import torch

    from instances.extract.kernels.call_effort import effort_of_call

    operator = torch.ops.aten._scaled_dot_product_flash_attention.default
    query = torch.zeros(2, 8, 16, 32, device="meta")
    shared = torch.zeros(2, 2, 16, 32, device="meta")
    whole = effort_of_call(operator, (query, query, query), {}, query)
    found = effort_of_call(operator, (query, shared, shared), {}, query)
    assert found.flops == whole.flops > 0
    assert found.moved_bytes < whole.moved_bytes
