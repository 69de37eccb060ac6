"""The exact solver under ``torch.compile``: same numbers, and no solver keeps more operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planners.recompute.exact_knapsack import best_pack

if TYPE_CHECKING:
    import torch

pytestmark = pytest.mark.torch

WIDTHS = (24, 40, 8, 64, 16, 24)


def make_network() -> tuple[torch.nn.Module, torch.Tensor]:
    import torch

    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for width, following in zip(WIDTHS, (*WIDTHS[1:], 4), strict=True):
        layers += [torch.nn.Linear(width, following), torch.nn.GELU()]
    # So many rows that activations, not parameters, take the memory.
    return torch.nn.Sequential(*layers), torch.randn(512, WIDTHS[0])


def gradients(module: torch.nn.Module, batch: torch.Tensor) -> list[torch.Tensor]:
    import torch

    loss = module(batch).square().sum()
    return list(torch.autograd.grad(loss, list(module.parameters())))


def recording_solver(asked: list[tuple[Any, ...]]) -> Any:
    from gpu_runtime.integrations import ExactMemoryBudgetSolver

    class Recording(ExactMemoryBudgetSolver):
        def __call__(self, *question: Any) -> tuple[list[int], list[int]]:
            answer = super().__call__(*question)
            memory, _, capacity, _, nodes = question
            asked.append((memory, capacity, nodes, answer))
            return answer

    return Recording()


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("memory_budget", [0.2, 0.5])
def test_a_compiled_module_within_its_budget(memory_budget: float, is_dynamic: bool) -> None:
    import torch
    from torch._functorch import config
    from torch._functorch._activation_checkpointing.knapsack import greedy_knapsack

    from gpu_runtime.integrations.memory_budget_solver import _flops

    module, batch = make_network()
    expected = gradients(module, batch)
    asked: list[tuple[Any, ...]] = []
    torch._dynamo.reset()
    with config.patch(
        activation_memory_budget=memory_budget,
        activation_memory_budget_solver=recording_solver(asked),
    ):
        compiled: Any = torch.compile(
            module, backend="aot_eager_decomp_partition", dynamic=is_dynamic
        )
        found = gradients(compiled, batch)
    torch.testing.assert_close(found, expected)
    ((memory, capacity, nodes, (kept, repeated)),) = asked
    assert sorted([*kept, *repeated]) == list(range(len(memory)))
    assert kept
    assert repeated
    assert sum(memory[item] for item in kept) <= capacity
    operations = [float(max(1, _flops(node))) for node in nodes]
    # A linear layer of 512 rows.
    assert 2 * 512 * WIDTHS[0] * WIDTHS[1] in operations
    greedy, _, _ = greedy_knapsack(memory, operations, capacity)
    assert sum(operations[item] for item in kept) >= greedy
    assert kept == best_pack(memory, operations, capacity)
