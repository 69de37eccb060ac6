"""Programs that repeat on GMLake: soon all they ask for is there."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime._core import CountingMemory, Gmlake, GmlakeRules, LedgerMemory

pytestmark = pytest.mark.core

CHUNK = 2 << 20
PLENTY = 1 << 20


def steps_of_a_program(lake: Gmlake, memory: CountingMemory, seed: int) -> list[tuple[int, int]]:
    """Return how often the device is asked in each of equal steps, and reserved bytes after it."""
    random = Random(seed)
    sizes = [random.randint(1, 160) * CHUNK for _ in range(60)]
    freed_at = [random.randint(at, len(sizes)) for at in range(len(sizes))]
    found = []
    for _ in range(20):
        before = calls_of(memory)
        blocks = []
        for at, size in enumerate(sizes):
            blocks.append(lake.allocate(size))
            for each in range(at + 1):
                if freed_at[each] == at:
                    assert lake.free(blocks[each])
        for each, at in enumerate(freed_at):
            if at == len(sizes):
                assert lake.free(blocks[each])
        lake.check()
        found.append((calls_of(memory) - before, lake.figures().reserved_bytes))
    return found


def calls_of(memory: CountingMemory) -> int:
    calls = memory.calls
    return calls.reserve_range + calls.create_pages + calls.map + calls.unmap


@pytest.mark.parametrize("limit", [0, 64, 256])
def test_a_program_that_repeats_soon_asks_the_device_for_nothing(limit: int) -> None:
    for seed in range(20):
        memory = CountingMemory(LedgerMemory(CHUNK, PLENTY * CHUNK))
        lake = Gmlake(memory, GmlakeRules(fragmentation_limit_bytes=limit * CHUNK))
        steps = steps_of_a_program(lake, memory, seed)
        assert steps[0][0] > 0
        assert steps[-8:] == [(0, steps[-1][1])] * 8
        states = lake.states()
        others = states.single, states.multiple, states.insufficient
        steps_of_a_program(lake, memory, seed)
        states = lake.states()
        assert (states.single, states.multiple, states.insufficient) == others


def test_a_program_that_repeats_asks_for_ever_where_few_stitched_blocks_are_kept() -> None:
    memory = CountingMemory(LedgerMemory(CHUNK, PLENTY * CHUNK))
    lake = Gmlake(memory, GmlakeRules(fragmentation_limit_bytes=0, most_stitched=2))
    steps = steps_of_a_program(lake, memory, 0)
    assert all(calls > 0 for calls, _ in steps)
