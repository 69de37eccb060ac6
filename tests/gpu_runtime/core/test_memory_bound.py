"""How many bytes planned memory reserves for programs whose sizes never recur."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime._core import CountingMemory, Figures, LedgerMemory, LedgerStreams, PlannedAllocator
from gpu_runtime.allocator.call_counts import call_counts

PAGE = 1 << 21


def train(random: Random, steps: int = 80, pages: int = 30) -> tuple[list[int], Figures]:
    """Return the device calls until the end of each step, and the figures at the end."""
    memory = CountingMemory(LedgerMemory(PAGE, 1 << 36, LedgerStreams.AT_ONCE), is_timed=False)
    allocator = PlannedAllocator(memory)
    for _ in range(300):
        allocator.allocate(random.randint(1, 4 * PAGE), 0)
    calls = []
    for _ in range(steps):
        allocator.begin_step(0)
        held = []
        for _ in range(40):
            scratch = allocator.allocate(random.randint(1, pages * PAGE), 0)
            held.append(allocator.allocate(random.randint(1, 12 * PAGE), 0))
            allocator.free(scratch)
        random.shuffle(held)
        for address in held:
            allocator.free(address)
        allocator.end_step()
        calls.append(sum(call_counts(memory.calls).values()))
    return calls, allocator.figures()


@pytest.mark.core
def test_the_moves_of_irregular_programs_fade() -> None:
    early = late = 0
    for seed in range(8):
        calls, figures = train(Random(seed))
        early += calls[24] - calls[4]
        late += calls[-1] - calls[-21]
        assert figures.reserved_peak <= 1.03 * figures.live_peak
    assert late <= early / 2


@pytest.mark.core
@pytest.mark.parametrize("seed", range(3))
def test_reserved_bytes_of_an_irregular_program_have_a_limit(seed: int) -> None:
    _, figures = train(Random(seed), steps=1500, pages=200)
    live = figures.live_peak
    assert figures.reserved_peak <= live + live // 128 + live // 256 + 4 * PAGE
