"""How many bytes planned memory reserves for programs whose sizes never recur."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime._core import CountingMemory, LedgerMemory, LedgerStreams, PlannedAllocator
from gpu_runtime.allocator.call_counts import call_counts

PAGE = 1 << 21
STEPS = 80


def train(random: Random) -> tuple[list[int], float]:
    """Return the device calls until the end of each step, and reserved bytes by live bytes."""
    memory = CountingMemory(LedgerMemory(PAGE, 1 << 36, LedgerStreams.AT_ONCE), is_timed=False)
    allocator = PlannedAllocator(memory)
    for _ in range(300):
        allocator.allocate(random.randint(1, 4 * PAGE), 0)
    calls = []
    for _ in range(STEPS):
        allocator.begin_step(0)
        held = []
        for _ in range(40):
            scratch = allocator.allocate(random.randint(1, 30 * PAGE), 0)
            held.append(allocator.allocate(random.randint(1, 12 * PAGE), 0))
            allocator.free(scratch)
        random.shuffle(held)
        for address in held:
            allocator.free(address)
        allocator.end_step()
        calls.append(sum(call_counts(memory.calls).values()))
    figures = allocator.figures()
    return calls, figures.reserved_peak / figures.live_peak


@pytest.mark.core
def test_the_moves_of_irregular_programs_end() -> None:
    early = late = 0
    for seed in range(8):
        calls, reserved = train(Random(seed))
        early += calls[24] - calls[4]
        late += calls[-1] - calls[-21]
        assert reserved <= 1.05
    assert late <= early / 4
