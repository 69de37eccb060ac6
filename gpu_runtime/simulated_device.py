"""The CPU as a device: real memory, streams on a simulated clock.

Note: a clock in place of threads.
Rationale: one thread a stream would leave the order of things to the operating system, and a test
that fails once in a thousand runs. Here a delay of a trial is a delay on a clock, every order that
the arcs allow can be had, and the same seed gives the same order again.
Limits: nodes begin and end one after the other, so two nodes never write at the very same moment.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.device import BrokenWord, DeviceFigures, ForeignWords, Outcome
from gpu_runtime.execution_order import execution_order
from gpu_runtime.layout import Layout
from gpu_runtime.node_program import NodeProgram
from gpu_runtime.pattern import WORD_BYTES, decode, pattern_bytes
from gpu_runtime.trials import Trial
from planners.errors import DeviceError

COPY_BYTES = 64 << 20


class SimulatedDevice:
    """A device in host memory.

    Parameters
    ----------
    program
        What every trial runs.
    layout
        Where its tensors lie.

    Raises
    ------
    DeviceError
        The arena cannot be had.
    """

    def __init__(self, program: NodeProgram, layout: Layout) -> None:
        self._program = program
        self._layout = layout
        self._offset = layout.offset.tolist()
        self._size = layout.size.tolist()
        # Whole words are read at the end of the arena too.
        needed = max(-(-layout.arena_bytes // WORD_BYTES) * WORD_BYTES, WORD_BYTES)
        try:
            self._map = mmap.mmap(-1, needed)
        except (OSError, OverflowError, ValueError) as error:
            raise DeviceError(f"mmap of {needed} bytes: {error}") from None
        self._arena: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self._words: NDArray[np.uint64] = self._arena.view(np.uint64)
        self.figures = DeviceFigures(
            "CPU, simulated streams",
            layout.arena_bytes,
            -(-needed // mmap.PAGESIZE) * mmap.PAGESIZE,
            _total(program.stamps, self._size),
            _total(program.checks, self._size),
            _measure_copy(),
        )

    def run(self, trial: Trial) -> Outcome:
        """Run the whole program once.

        Parameters
        ----------
        trial
            Delays and key.

        Returns
        -------
        Outcome
            What was not as stamped.
        """
        foreign: list[ForeignWords] = []
        broken: list[BrokenWord] = []
        begun = time.perf_counter()
        for node, ends in execution_order(self._program, trial):
            if ends:
                for tensor in self._program.checks[node]:
                    self._check(tensor, trial.key, foreign, broken)
            else:
                for tensor in self._program.stamps[node]:
                    offset, size = self._offset[tensor], self._size[tensor]
                    pattern = pattern_bytes(tensor, offset, size, trial.key)
                    self._arena[offset : offset + size] = pattern
        return Outcome(time.perf_counter() - begun, foreign, broken)

    def close(self) -> None:
        """Give the arena back."""
        del self._arena, self._words
        self._map.close()

    def _check(
        self, tensor: int, key: int, foreign: list[ForeignWords], broken: list[BrokenWord]
    ) -> None:
        offset, size = self._offset[tensor], self._size[tensor]
        found = self._arena[offset : offset + size]
        wrong = found != pattern_bytes(tensor, offset, size, key)
        if not wrong.any():
            return
        words = np.unique((np.flatnonzero(wrong) + offset) // WORD_BYTES)
        writers = self._writers(tensor, words, key)
        for writer in np.unique(writers[writers >= 0]).tolist():
            its = words[writers == writer]
            foreign.append(ForeignWords(tensor, writer, self._layout.plan_bytes(its), int(its[0])))
        for word in words[writers < 0].tolist():
            broken.append(self._broken_word(tensor, word))

    def _broken_word(self, victim: int, word: int) -> BrokenWord:
        """Return a word with the bytes that belong to a tensor, and zeros for the others."""
        first = word * WORD_BYTES
        offset, size = self._offset[victim], self._size[victim]
        its = [byte for byte in range(WORD_BYTES) if 0 <= first + byte - offset < size]
        found = sum(int(self._arena[first + byte]) << 8 * byte for byte in its)
        return BrokenWord(victim, word, found, sum(1 << byte for byte in its))

    def _writers(self, victim: int, words: NDArray[np.int64], key: int) -> NDArray[np.int64]:
        """Return whose pattern each word is, -1 where it is nobody's as a whole."""
        writers, index = decode(self._words[words], key)
        offset, size = self._offset[victim], self._size[victim]
        first = words * WORD_BYTES
        whole = (first >= offset) & (first + WORD_BYTES <= offset + size)
        known = whole & (index == words) & (writers < self._layout.tensor_count)
        return np.where(known, writers, -1)


def _total(tensors: Sequence[Sequence[int]], size: list[int]) -> int:
    return sum(size[tensor] for of_node in tensors for tensor in of_node)


@cache
def _measure_copy() -> float:
    """Return bytes read and written a second by a large copy."""
    source = np.ones(COPY_BYTES, dtype=np.uint8)
    target = np.zeros_like(source)
    begun = time.perf_counter()
    target[:] = source
    return 2 * COPY_BYTES / (time.perf_counter() - begun)
