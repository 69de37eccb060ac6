"""PyTorch's two allocators in the experiments of the laboratory, and the real ones beside them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime._core import (
    CudaMemory,
    DeviceMemory,
    LedgerMemory,
    OnlineAllocator,
    OnlineState,
    PytorchCaching,
    PytorchExpandable,
    SimulatedMemory,
)
from tests.gpu_runtime.core.online.laboratory import (
    EXPERIMENTS,
    GIVE_BACK,
    MIB,
    Experiment,
    Laboratory,
    Step,
    expected,
    published_of,
)
from tests.gpu_runtime.core.online.live_laboratory import (
    measure_live,
)

pytestmark = pytest.mark.core

CAPACITY = 1 << 30
STATE_NAMES = {OnlineState.ALLOCATED: "active", OnlineState.FREE: "free"}
ALL = pytest.mark.parametrize("name", EXPERIMENTS)


class OnlineLaboratory(Laboratory):
    """An online allocator over a device."""

    def __init__(self, experiment: Experiment, memory: DeviceMemory) -> None:
        super().__init__()
        kind = PytorchExpandable if experiment.is_expandable else PytorchCaching
        self._allocator: OnlineAllocator = kind(memory)

    def allocate(self, size: int) -> object:
        return self._allocator.allocate(size)

    def free(self, block: object) -> None:
        assert isinstance(block, int)
        assert self._allocator.free(block)
        self._allocator.check()

    def give_back(self) -> None:
        self._allocator.give_back()
        self._allocator.check()

    def reserved_bytes(self) -> int:
        return self._allocator.figures().reserved_bytes

    def layout(self) -> list[str]:
        return [
            " | ".join(
                f"{block.bytes / MIB:g} {STATE_NAMES[block.state]}"
                for block in segment.blocks
                if block.state != OnlineState.UNMAPPED
            )
            for segment in self._allocator.segments()
        ]


def last_steps(experiment: Experiment) -> tuple[Step, Step]:
    """Return steps that free the blocks that are left, and give all memory back."""
    begun = {block for step in experiment.steps for block, _ in step.allocated}
    left = begun.difference(*(step.freed for step in experiment.steps))
    return Step(experiment.steps[-1].reserved, None, freed=tuple(left)), GIVE_BACK


@ALL
@pytest.mark.parametrize("kind", [LedgerMemory, SimulatedMemory])
def test_ours_holds_what_is_published(name: str, kind: type[Any]) -> None:
    experiment = EXPERIMENTS[name]
    steps = (*experiment.steps, *last_steps(experiment))
    found = OnlineLaboratory(experiment, kind(2 * MIB, CAPACITY)).measure(steps)
    assert published_of(found, steps) == expected(steps)


@pytest.mark.gpu
@ALL
def test_the_real_pytorch_and_ours_on_a_gpu_hold_the_same(name: str) -> None:
    experiment = EXPERIMENTS[name]
    ours = OnlineLaboratory(experiment, CudaMemory(0))
    found = ours.measure(experiment.steps)
    live = measure_live(name)
    ours.measure(last_steps(experiment))
    assert found == live
    assert published_of(live, experiment.steps) == expected(experiment.steps)
