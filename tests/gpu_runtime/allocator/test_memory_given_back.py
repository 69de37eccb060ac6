"""A plan is followed again after a request that no device has memory for, on a budget of moves."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime._core import PlannedAllocator, SimulatedMemory
from gpu_runtime.allocator.planned_memory import PlannedMemory

torch = pytest.importorskip("torch")
from tests.gpu_runtime.allocator.gpu_programs import OfOurOwnError, model_of  # noqa: E402
from tests.gpu_runtime.online.allocating_mode import AllocatingMode  # noqa: E402

pytestmark = pytest.mark.torch

PAGE, CAPACITY = 2 << 20, 2 << 30
STEPS, FULL_IN = 12, 6


class FullInBackward(torch.autograd.Function):
    """Asks for more than the device has, in the backward pass of one step."""

    @staticmethod
    def forward(context: Any, x: Any, allocator: PlannedAllocator) -> Any:
        context.allocator = allocator
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        raise_full(context.allocator)
        return gradient, None


def raise_full(allocator: PlannedAllocator) -> None:
    with pytest.raises(MemoryError):
        allocator.allocate(CAPACITY + PAGE)
    raise OfOurOwnError


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_plan_is_followed_again_after_memory_was_short(where: str) -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, CAPACITY), share_of_moves=0.005)
    memory = PlannedMemory(time_limit=5.0, _planning="between")
    memory.attach(allocator)
    model = model_of("transformer")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step(number: int) -> Any:
        is_full = number == FULL_IN
        batch = inputs[number].clone()
        optimizer.zero_grad(set_to_none=True)
        out = model(batch)
        if is_full and where == "forward":
            raise_full(allocator)
        if is_full:
            out = FullInBackward.apply(out, allocator)
        loss = torch.nn.functional.mse_loss(out, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    planned = []
    with AllocatingMode(allocator, scale=1) as mode:
        mode.adopt(model)
        inputs = torch.randn(STEPS, 32, 64, 256)
        for number in range(STEPS):
            before, completed = memory.report().planned_steps, True
            memory.begin_step()
            try:
                # Lives until the next step's is made, as in a loop of a user.
                loss = step(number)
            except OfOurOwnError:
                completed = False
            memory.end_step(completed=completed)
            if not completed:
                optimizer.zero_grad(set_to_none=True)
            planned.append(memory.report().planned_steps - before)
    assert loss.isfinite()
    # Memory comes back in the first step after it was short. What that step leaves in the open
    # arena, such as its loss, may occupy places of the next one.
    assert planned[FULL_IN + 3 :] == [1] * (STEPS - FULL_IN - 3), planned
    assert memory.report().reserved_now <= memory.report().expandable_now
