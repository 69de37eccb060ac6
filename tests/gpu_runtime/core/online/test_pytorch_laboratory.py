"""PyTorch's two allocators in the experiments of the laboratory, and the real ones beside them."""

from __future__ import annotations

from types import SimpleNamespace
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
    STATES,
    LiveLaboratory,
    layout_of_snapshot,
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


def test_experiments_on_pytorch_match_those_on_ours() -> None:
    """Everything but PyTorch itself: its figures are ours, and its storages end."""
    experiment = EXPERIMENTS["split-and-merge off"]
    allocator = OnlineLaboratory(experiment, LedgerMemory(2 * MIB, CAPACITY))

    def empty(size: int, *, dtype: str, device: str) -> SimpleNamespace:
        assert (dtype, device) == ("bytes", "cuda")
        block = allocator.allocate(size)
        storage = SimpleNamespace(resize_=lambda size: size or allocator.free(block))
        return SimpleNamespace(untyped_storage=lambda: storage)

    def snapshot() -> list[dict[str, Any]]:
        blocks = [layout.split(" | ") for layout in allocator.layout()]
        states = {name: state for state, name in STATES.items()}
        return [
            {
                "blocks": [
                    {"size": int(size) * MIB, "state": states[state]}
                    for size, state in (block.split() for block in each)
                ]
            }
            for each in blocks
        ]

    cuda = SimpleNamespace(
        memory_stats=lambda: {"reserved_bytes.all.current": allocator.reserved_bytes()},
        memory_snapshot=snapshot,
        empty_cache=allocator.give_back,
    )
    live = LiveLaboratory(SimpleNamespace(empty=empty, uint8="bytes", cuda=cuda))
    steps = (*experiment.steps, GIVE_BACK)
    assert live.measure(steps) == expected(steps)


def test_a_snapshot_tells_of_blocks() -> None:
    segment = {
        "blocks": [
            {"size": 512 << 10, "state": "active_allocated"}, {"size": 4 * MIB, "state": "inactive"}
        ]
    }  # fmt: skip
    assert layout_of_snapshot([segment]) == ["0.5 active | 4 free"]
