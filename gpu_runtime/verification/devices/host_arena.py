"""An arena in host memory: one thread or several stamp and check tensors in it.

Note: bytes that two threads touch at the same time.
Rationale: in a wrong plan one thread stamps bytes that another stamps or checks. A verification
has to see this, and a lock around the bytes would hide it.
Approach: NumPy copies and compares without the interpreter's lock, in compiled loops that the
compiler cannot merge with code around them. A byte that is read is therefore a byte that some
thread wrote; a word may be half one thread's and half another's. No more is needed: a byte that
is not the tensor's own is wrong whichever thread wrote it, and a torn word is judged byte by byte.
A check copies its words before it judges them, for two reads of one word may differ.
Limits: the program orders the threads between a stamp and the checks of a tensor, which also makes
the stamped bytes visible to the checking threads. No two threads race for memory of a right plan.
"""

from __future__ import annotations

import contextlib
import mmap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.devices.device import BrokenWord, DeviceFigures, ForeignWords
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.stamp_pattern import WORD_BYTES, Words, decode, pattern_bytes
from planners.errors import DeviceError

COPY_BYTES = 64 << 20
# Bytes per block, a multiple of a word. Patterns of this length stay in a core's cache; a guess.
BLOCK_BYTES = 256 << 10


@dataclass
class WrongWords:
    """The wrong words that checks found."""

    # In the order in which they were found.
    foreign: list[ForeignWords] = field(default_factory=list)
    broken: list[BrokenWord] = field(default_factory=list)


class HostArena:
    """Memory of this machine, divided by a layout."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._offset = layout.offset.tolist()
        self._size = layout.size.tolist()
        # Checks read whole words at the end of the arena too.
        needed = max(-(-layout.arena_bytes // WORD_BYTES) * WORD_BYTES, WORD_BYTES)
        try:
            self._map = mmap.mmap(-1, needed)
        except (OSError, OverflowError, ValueError) as error:
            raise DeviceError(f"mmap of {needed} bytes: {error}") from None
        self._words: Words = np.frombuffer(self._map, dtype=np.uint64)
        self._bytes: NDArray[np.uint8] = self._words.view(np.uint8)

    def figures(self, name: str, program: StampCheckProgram) -> DeviceFigures:
        """Return the figures of a device that runs a program here and copies by one thread."""
        return DeviceFigures(
            name,
            self._layout.arena_bytes,
            -(-self._words.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE,
            self._total(program.stamps),
            self._total(program.checks),
            _measure_copy(),
        )

    def stamp(self, tensor: int, key: int) -> None:
        """Write the pattern of a tensor over all of it."""
        for begin, end in self._blocks(tensor):
            self._bytes[begin:end] = pattern_bytes(tensor, begin, end - begin, key)

    def check(self, tensor: int, key: int, into: WrongWords) -> None:
        """Compare a tensor with its pattern, and collect the wrong words."""
        for begin, end in self._blocks(tensor):
            first = begin // WORD_BYTES
            found = self._words[first : -(-end // WORD_BYTES)].copy()
            at = begin - first * WORD_BYTES
            its = found.view(np.uint8)[at : at + end - begin]
            wrong = its != pattern_bytes(tensor, begin, end - begin, key)
            if wrong.any():
                words = np.unique((np.flatnonzero(wrong) + begin) // WORD_BYTES)
                self._note(tensor, words, found[words - first], key, into)

    def close(self) -> None:
        del self._bytes, self._words
        # The traceback of an error may still refer to the arena; the memory is then freed with it.
        with contextlib.suppress(BufferError):
            self._map.close()

    def _blocks(self, tensor: int) -> Iterator[tuple[int, int]]:
        """Yield begin and end of the blocks of a tensor; no word is in two of them."""
        begin, end = self._offset[tensor], self._offset[tensor] + self._size[tensor]
        while begin < end:
            cut = min((begin // BLOCK_BYTES + 1) * BLOCK_BYTES, end)
            yield begin, cut
            begin = cut

    def _note(
        self, tensor: int, words: NDArray[np.int64], found: Words, key: int, into: WrongWords
    ) -> None:
        """Collect wrong words: by writer if they are a whole pattern, else one by one."""
        writers = self._writers(tensor, words, found, key)
        for writer in np.unique(writers[writers >= 0]).tolist():
            its = words[writers == writer]
            count = self._layout.plan_bytes(its)
            into.foreign.append(ForeignWords(tensor, writer, count, int(its[0])))
        for at in np.flatnonzero(writers < 0).tolist():
            into.broken.append(self._broken_word(tensor, int(words[at]), int(found[at])))

    def _broken_word(self, victim: int, word: int, found: int) -> BrokenWord:
        """Return a word with the bytes that belong to a tensor, and zeros for the others."""
        first = word * WORD_BYTES
        offset, size = self._offset[victim], self._size[victim]
        its = [byte for byte in range(WORD_BYTES) if 0 <= first + byte - offset < size]
        kept = sum(0xFF << 8 * byte for byte in its)
        return BrokenWord(victim, word, found & kept, sum(1 << byte for byte in its))

    def _writers(
        self, victim: int, words: NDArray[np.int64], found: Words, key: int
    ) -> NDArray[np.int64]:
        """Return the tensor whose pattern each word is, -1 if it is not a whole pattern."""
        writers, index = decode(found, key)
        offset, size = self._offset[victim], self._size[victim]
        first = words * WORD_BYTES
        whole = (first >= offset) & (first + WORD_BYTES <= offset + size)
        known = whole & (index == words) & (writers < self._layout.tensor_count)
        return np.where(known, writers, -1)

    def _total(self, tensors: Sequence[Sequence[int]]) -> int:
        return sum(self._size[tensor] for of_node in tensors for tensor in of_node)


@cache
def _measure_copy() -> float:
    """Return bytes read and written a second by a large copy."""
    source = np.ones(COPY_BYTES, dtype=np.uint8)
    target = np.zeros_like(source)
    begun = time.perf_counter()
    target[:] = source
    return 2 * COPY_BYTES / (time.perf_counter() - begun)
