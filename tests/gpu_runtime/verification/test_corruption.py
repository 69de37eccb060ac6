"""Words that several tensors share are laid at the right door."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runtime.verification.corruption import CorruptionLedger
from gpu_runtime.verification.devices.device import BrokenWord, DeviceOutcome, ForeignWords
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.stamp_pattern import pattern_bytes
from gpu_runtime.verification.trials.trial import make_trial

TRIAL = make_trial(StampCheckProgram((), (), (), ()), 0, seed=1)

#   byte    0    3  4    8        16
#   0       |-------------------|
#   1       |----|
#   2               |----|
#   3       |-------------------|   may share bytes with 0
LAYOUT = Layout(np.array([0, 0, 4, 0]), np.array([16, 3, 4, 16]), 16)


def is_unsafe(a: int, b: int) -> bool:
    return 3 not in (a, b)


def word_of(**bytes_of: tuple[int, int]) -> int:
    """Return a word in which ``t<tensor>`` wrote the bytes [begin, end) last."""
    word = np.zeros(8, dtype=np.uint8)
    for tensor, (begin, end) in bytes_of.items():
        word[begin:end] = pattern_bytes(int(tensor[1:]), 0, 8, TRIAL.key)[begin:end]
    return int.from_bytes(word.tobytes(), "little")


def found_in(word: int, mask: int = 0xFF) -> dict[int | None, int]:
    ledger = CorruptionLedger(LAYOUT, is_unsafe)
    ledger.add(TRIAL, DeviceOutcome(0.0, broken=[BrokenWord(0, 0, word, mask)]))
    return {found.writer: found.bytes for found in ledger.corruptions()}


def test_each_writer_has_its_bytes() -> None:
    assert found_in(word_of(t0=(0, 8), t1=(0, 3))) == {1: 3}
    assert found_in(word_of(t0=(0, 8), t1=(0, 3), t2=(4, 8))) == {1: 3, 2: 4}


def test_bytes_of_nobody_are_said_to_be() -> None:
    assert found_in(0) == {None: 8}
    assert found_in(word_of(t2=(4, 8))) == {2: 4, None: 4}


def test_bytes_outside_the_mask_are_another_tensors() -> None:
    assert found_in(word_of(t0=(0, 2), t1=(2, 3)), mask=0x07) == {1: 1}
    assert found_in(word_of(t0=(0, 2), t1=(2, 3), t2=(4, 8)), mask=0x07) == {1: 1}


def test_a_word_that_only_the_device_calls_wrong_is_nobodys() -> None:
    assert found_in(word_of(t0=(0, 8))) == {None: 8}
    assert found_in(word_of(t0=(0, 4)), mask=0x0F) == {None: 4}


def test_of_two_that_explain_as_much_the_unsafe_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Patterns of one byte for all tensors but the victim: any of the others may have written."""
    monkeypatch.setattr(
        "gpu_runtime.verification.corruption.pattern_words",
        lambda tensor, _first, _count, _key: np.array([0 if tensor else (1 << 64) - 1], np.uint64),
    )
    assert found_in(0xFFFFFFFFFF000000) == {1: 3}


def test_trials_and_bytes_add_up_and_the_lowest_offset_counts() -> None:
    ledger = CorruptionLedger(LAYOUT, is_unsafe)
    for number, first in ((0, 1), (1, 0)):
        trial = make_trial(StampCheckProgram((), (), (), ()), number, seed=1)
        words = [ForeignWords(0, 3, 8, first), ForeignWords(0, 3, 8, 1)]
        ledger.add(trial, DeviceOutcome(0.0, words, lost=2))
    (found,) = ledger.corruptions()
    assert (found.bytes, found.words, found.offset, found.trials) == (32, 4, 0, (0, 1))
    assert found.unsafe is False
    assert ledger.lost == 4
    assert ledger.has_seen(3, 0)
    assert not ledger.has_seen(1, 0)
