"""Corruptions: which tensor lost bytes to which other one, collected over trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpu_runtime.verification.devices.device import BrokenWord, DeviceOutcome
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_pattern import WORD_BYTES, pattern_words
from gpu_runtime.verification.trials.trial import Disturbance, Trial


@dataclass(frozen=True)
class Corruption:
    """A tensor that did not hold its stamped pattern."""

    victim: int
    # The tensor whose pattern was found; None if no tensor has these bytes as its pattern.
    writer: int | None
    # Wrong bytes, summed over all checks of all trials.
    bytes: int
    # Offset in the plan of one wrong byte.
    offset: int
    # Numbers of the trials that found it.
    trials: tuple[int, ...]
    disturbances: frozenset[Disturbance]
    # True if the two tensors may not share bytes; None without a writer.
    unsafe: bool | None

    @property
    def words(self) -> int:
        """Wrong bytes in words of eight, rounded up."""
        return -(-self.bytes // WORD_BYTES)


class CorruptionLedger:
    """Collects the findings of trials by victim and writer."""

    def __init__(self, layout: Layout, is_unsafe: Callable[[int, int], bool]) -> None:
        self._layout = layout
        self._is_unsafe = is_unsafe
        self._bytes: dict[tuple[int, int | None], int] = defaultdict(int)
        self._offset: dict[tuple[int, int | None], int] = {}
        self._trials: dict[tuple[int, int | None], list[Trial]] = defaultdict(list)
        # Wrong words that a device had no room to report.
        self.lost = 0

    def add(self, trial: Trial, outcome: DeviceOutcome) -> None:
        for words in outcome.foreign:
            offset = self._layout.plan_offset(words.first_word)
            self._note(trial, words.victim, words.writer, words.plan_bytes, offset)
        for word in outcome.broken:
            for writer, count in self._writers_in(word, trial.key).items():
                offset = self._layout.plan_offset(word.word)
                self._note(trial, word.victim, writer, count, offset)
        self.lost += outcome.lost

    def has_seen(self, a: int, b: int) -> bool:
        """Return True if the pattern of one of two tensors was found in place of the other."""
        return (a, b) in self._bytes or (b, a) in self._bytes

    def corruptions(self) -> list[Corruption]:
        """Return the findings, those of the most bytes first."""
        return [
            Corruption(
                victim,
                writer,
                count,
                self._offset[victim, writer],
                tuple(trial.number for trial in self._trials[victim, writer]),
                frozenset(trial.disturbance for trial in self._trials[victim, writer]),
                None if writer is None else self._is_unsafe(victim, writer),
            )
            for (victim, writer), count in sorted(
                self._bytes.items(),
                key=lambda entry: (
                    -entry[1],
                    entry[0][0],
                    -1 if entry[0][1] is None else entry[0][1],
                ),
            )
        ]

    def _note(self, trial: Trial, victim: int, writer: int | None, count: int, at: int) -> None:
        pair = victim, writer
        self._bytes[pair] += count
        self._offset[pair] = min(at, self._offset.get(pair, at))
        if trial not in self._trials[pair]:
            self._trials[pair].append(trial)

    def _writers_in(self, word: BrokenWord, key: int) -> dict[int | None, int]:
        """Return the number of wrong bytes of a word by their writer.

        If a device reports bytes as wrong that are right here, its patterns differ from ours. Such
        bytes have no writer, so that the error is seen.
        """
        found = word.found.to_bytes(WORD_BYTES, "little")
        own = self._pattern(word.victim, word.word, key)
        wrong = {
            byte for byte in range(WORD_BYTES) if word.mask >> byte & 1 and found[byte] != own[byte]
        }
        if not wrong:
            return {None: word.mask.bit_count()}
        explained = {
            tensor: {byte for byte in wrong & covered if found[byte] == pattern[byte]}
            for tensor, covered in self._covering(word.word).items()
            if tensor != word.victim
            for pattern in [self._pattern(tensor, word.word, key)]
        }
        writers: dict[int | None, int] = {}
        # A byte may equal another tensor's byte by chance. The tensor that explains the most bytes
        # comes first, and of two equal ones the tensor that is unsafe with the victim.
        while wrong and explained:
            writer = max(
                explained,
                key=lambda tensor: (
                    len(explained[tensor] & wrong),
                    self._is_unsafe(word.victim, tensor),
                ),
            )
            its = explained.pop(writer) & wrong
            if not its:
                break
            writers[writer] = len(its)
            wrong -= its
        if wrong:
            writers[None] = len(wrong)
        return writers

    def _covering(self, word: int) -> dict[int, set[int]]:
        """Return the tensors that cover a word, with the bytes of the word that each covers."""
        first = word * WORD_BYTES
        begin, end = self._layout.offset, self._layout.offset + self._layout.size
        touching = np.flatnonzero((begin < first + WORD_BYTES) & (end > first))
        return {
            tensor: {b for b in range(WORD_BYTES) if begin[tensor] <= first + b < end[tensor]}
            for tensor in touching.tolist()
        }

    def _pattern(self, tensor: int, word: int, key: int) -> bytes:
        return pattern_words(tensor, word, 1, key).tobytes()
