"""Training steps without a model: requests, their ends, and stamps that tell of a lost byte.

A program is the list of the requests of one step. Time is counted in them: what ends at ``t`` is
freed before request ``t`` is made, at ``len(program)`` when the step is over but has not ended.

    time        0    1    2    3 | 0    1    2    3
    WITHIN      [---------)               end 2
    BETWEEN     [----------------)        after the end of the step
    NEXT             [------------)       end 1, before its successor is made
    NEXT        [---------------------)   end 2, after it
    KEPT        [-------------------- ... until somebody lets go of it
"""

from __future__ import annotations

import ctypes
import enum
from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from gpu_runtime import PlannedMemory
from gpu_runtime._core import BLOCK_ALIGNMENT, PlannedAllocator, SimulatedMemory
from gpu_runtime.allocator.step_planner import Planning

PAGE_BYTES = 1 << 16
CAPACITY_BYTES = 1 << 28
STREAMS = (0, 7, 1 << 40)
# After so many steps of one program its plan is made, and nothing is in its way any more.
SETTLED_STEPS = 6


class Life(enum.Enum):
    """When a block is freed."""

    WITHIN = enum.auto()
    BETWEEN = enum.auto()
    NEXT = enum.auto()
    KEPT = enum.auto()


@dataclass(frozen=True)
class Request:
    """What a step asks for: bytes, on a stream, until a time."""

    size: int
    stream: int
    life: Life
    end: int = 0


Program = list[Request]


def random_program(
    rng: Random, requests: int, streams: int = 1, *, sizes: int = 40, kept: float = 0.0
) -> Program:
    """Return a step with blocks of every life; `kept` is the share of those that stay for good."""
    choice = [rng.randint(1, 40 * BLOCK_ALIGNMENT) for _ in range(sizes)]
    program = []
    for index in range(requests):
        life = rng.choices(
            [Life.WITHIN, Life.BETWEEN, Life.NEXT, Life.KEPT], [0.7, 0.08, 0.22 - kept, kept]
        )[0]
        end = 0
        if life is Life.WITHIN:
            end = rng.randint(index + 1, requests)
        elif life is Life.NEXT:
            end = rng.randint(0, requests if rng.random() < 0.2 else index)
        size = rng.choice(choice) if life is not Life.KEPT else rng.randint(1, 600)
        program.append(Request(size, STREAMS[rng.randrange(streams)], life, end))
    return program


def rounded(size: int) -> int:
    return -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT


@dataclass(frozen=True)
class Block:
    """Memory in use: where, and the number that its stamp is made from."""

    address: int
    request: Request
    serial: int

    @property
    def end(self) -> int:
        return self.address + rounded(self.request.size)


class BrokenStepError(Exception):
    """Ends a step in its middle."""


_NOISE = np.random.default_rng(1).integers(0, 256, 1 << 18, dtype=np.uint8)


class Training:
    """Runs programs as steps, looks for shared bytes, and keeps an account of its own."""

    def __init__(
        self,
        planner: str = "many-objects-size-best",
        *,
        capacity_bytes: int = CAPACITY_BYTES,
        time_limit: float = 10.0,
        planning: Planning = "between",
    ) -> None:
        self.device = SimulatedMemory(PAGE_BYTES, capacity_bytes)
        self.allocator = PlannedAllocator(self.device)
        self.memory = PlannedMemory(planner, time_limit=time_limit, _planning=planning)
        self.memory.attach(self.allocator)
        self.kept: list[Block] = []
        self.made: list[Block] = []  # in the last step
        self.live_bytes = self.peak_bytes = 0
        self.live_requested = self.peak_requested = 0
        self._live: list[tuple[int, int, int]] = []  # address, end, serial
        self._from_last_step: list[Block] = []
        self._serial = 0

    @property
    def planned(self) -> bool:
        return self.memory.report().status in ("optimal", "feasible")

    @property
    def live(self) -> list[tuple[int, int, int]]:
        """Addresses, ends and numbers of all blocks in use."""
        return list(self._live)

    def make(self, request: Request) -> Block:
        address = self.allocator.allocate(request.size, request.stream)
        self._serial += 1
        block = Block(address, request, self._serial)
        assert address % BLOCK_ALIGNMENT == 0
        index = bisect(self._live, (address, 0, 0))
        for begin, end, serial in self._live[max(0, index - 1) : index + 1]:
            assert end <= address or block.end <= begin, (
                f"block {block.serial} of {request} shares bytes with block {serial}"
            )
        insort(self._live, (address, block.end, block.serial))
        _bytes_of(block)[:] = _stamp_of(block)
        self.live_bytes += rounded(request.size)
        self.live_requested += request.size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        self.peak_requested = max(self.peak_requested, self.live_requested)
        return block

    def free(self, block: Block) -> None:
        assert np.array_equal(_bytes_of(block), _stamp_of(block)), f"{block} lost bytes"
        self._live.remove((block.address, block.end, block.serial))
        self.allocator.free(block.address)
        self.live_bytes -= rounded(block.request.size)
        self.live_requested -= block.request.size

    def step(
        self, program: Sequence[Request], breaks_at: int | None = None, kind: str | None = None
    ) -> None:
        """Run one step; `breaks_at` is the request before which it ends with an error."""
        self.made = []
        within: list[Block] = []
        try:
            with self.memory.step(kind):
                for index, request in enumerate(program):
                    self._free_ended(within, index)
                    self._free_ended(self._from_last_step, index)
                    if index == breaks_at:
                        raise BrokenStepError
                    block = self.make(request)
                    self.made.append(block)
                    if request.life is Life.WITHIN:
                        within.append(block)
                self._free_ended(within)
                self._free_ended(self._from_last_step)
        except BrokenStepError:
            # The error has kept alive what its frames held.
            self._free_ended(within)
            self._free_ended(self._from_last_step)
        for block in self.made:
            if block.request.life is Life.BETWEEN:
                self.free(block)
            elif block.request.life is Life.NEXT:
                self._from_last_step.append(block)
            elif block.request.life is Life.KEPT:
                self.kept.append(block)

    def run(self, program: Sequence[Request], steps: int) -> None:
        for _ in range(steps):
            self.step(program)

    def let_go(self) -> None:
        """Free what is kept, for good or for the next step."""
        self._free_ended(self.kept)
        self._free_ended(self._from_last_step)

    def free_all(self) -> None:
        """Free everything; nothing may be left, here or in the allocator."""
        self.let_go()
        assert not self._live
        figures = self.allocator.figures()
        assert figures.requested_bytes == figures.allocated_bytes == 0
        self.allocator.check()

    def check_account(self) -> None:
        """Hold the report against this account."""
        report = self.memory.report()
        assert report.requested_bytes == self.peak_requested
        assert report.allocated_bytes == self.peak_bytes
        assert len(report.mismatches) == min(64, sum(report.mismatch_counts.values()))
        figures = self.allocator.figures()
        assert figures.allocated_bytes == self.live_bytes
        assert figures.requested_bytes == self.live_requested
        assert figures.refused_frees == 0
        self.allocator.check()

    def _free_ended(self, blocks: list[Block], time: int | None = None) -> None:
        """Free the blocks that have ended by a time; all of them without one."""
        ended = [block for block in blocks if time is None or block.request.end <= time]
        for block in ended:
            blocks.remove(block)
            self.free(block)


def planned_training(
    program: Sequence[Request], planner: str = "many-objects-size-best"
) -> Training:
    """Return a training whose plan serves a program, and that learns no more of it."""
    training = Training(planner)
    training.run(program, SETTLED_STEPS)
    assert training.planned
    training.memory.reset_peaks()
    training.peak_bytes, training.peak_requested = training.live_bytes, training.live_requested
    return training


def served(training: Training, program: Sequence[Request], kind: str | None = None) -> bool:
    """Whether the plan of a program serves a step of it as a whole."""
    before = training.memory.report()
    training.step(program, kind=kind)
    after = training.memory.report()
    return after.planned_steps == before.planned_steps + 1


def _bytes_of(block: Block) -> NDArray[np.uint8]:
    memory = (ctypes.c_uint8 * block.request.size).from_address(block.address)
    return np.ctypeslib.as_array(memory)


def _stamp_of(block: Block) -> NDArray[np.uint8]:
    begin = block.serial * 131 % (len(_NOISE) - block.request.size)
    return _NOISE[begin : begin + block.request.size]
