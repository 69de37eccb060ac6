"""The holes of frames, and the tensors in them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from gpu_runtime._core import PlannedAllocator, SimulatedMemory, StepPlan
from gpu_runtime.allocator.frames_in_use import frames_in_use
from planners.model.problem import Problem

pytestmark = pytest.mark.core

PAGE = 64


@pytest.mark.parametrize("seed", range(20))
def test_holes_are_the_rest_of_the_frames_and_tensors_share_them_in_turn(seed: int) -> None:
    random = Random(seed)
    owner = np.full(PAGE * 40, -1)
    rows = []
    at = random.randrange(3 * PAGE)
    while (end := at + random.randrange(1, 2 * PAGE)) < len(owner):
        owner[at:end] = at
        rows.append((at, end - at, 7, -1, -1))
        at = end + random.choice((0, 0, random.randrange(PAGE), random.randrange(4 * PAGE)))
    found = frames_in_use(np.array(rows), PAGE)
    in_frame = (owner.reshape(-1, PAGE) >= 0).any(axis=1)
    assert found.count == in_frame.sum()
    free = np.zeros(len(owner), dtype=int)
    for size, stream, address, beside in found.holes.tolist():
        free[address : address + size] += 1
        assert stream == 7
        assert owner[beside] == beside
    assert (free == (np.repeat(in_frame, PAGE) & (owner < 0))).all()

    start = np.array([random.randrange(30) for _ in range(50)])
    end_ = start + [random.randrange(3, 20) for _ in start]
    gaps = [(tensor, start[tensor] + 1, start[tensor] + 2) for tensor in range(0, 50, 3)]
    problem = Problem([random.randrange(1, PAGE) for _ in start], start, end_, gaps=gaps)
    stream = np.array([random.choice((7, 7, 8)) for _ in start])
    taken = np.zeros((len(owner), 60), dtype=int)
    filled = found.fill(problem, stream)
    assert len(filled) > 0
    for tensor, offset, beside in filled.tolist():
        assert stream[tensor] == 7
        alive = np.zeros(60, dtype=bool)
        alive[start[tensor] : end_[tensor]] = True
        alive[start[tensor] + 1] &= tensor % 3 != 0
        rows_ = slice(beside + offset, beside + offset + int(problem.size[tensor]))
        taken[rows_] += alive
        assert free[rows_].all()
    assert taken.max() == 1


def test_a_place_beside_a_block_that_stays() -> None:
    memory = SimulatedMemory(1 << 21, 1 << 30)
    allocator = PlannedAllocator(memory)
    stays, gone = allocator.allocate(1000), allocator.allocate(3000)
    allocator.free(gone)
    rows = [allocator.blocks_in_use().tolist()]
    assert rows == [[[stays, 1024, 0, -1, -1]]]
    places = np.array([2048, 2048, 8192]), np.full(3, stays, dtype=np.uint64)
    allocator.adopt([StepPlan(-1, np.zeros(3, int), np.array([600, 512, 512]), *places)], 0)
    for is_there in (True, False):
        allocator.begin_step()
        blocks = [allocator.allocate(size) for size in (600, 512, 512)]
        assert (blocks[0] == stays + 2048) == is_there
        assert blocks[1] != blocks[0]
        assert blocks[2] == stays + 8192  # beside the block that is there now
        assert allocator.end_step().planned == 2
        allocator.check()
        for block in blocks:
            allocator.free(block)
        if is_there:
            allocator.free(stays)
