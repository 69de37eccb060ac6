"""The pattern names its writer, and depends on everything that makes it."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runtime.verification.trials.stamp_pattern import (
    INDEX_BITS,
    TENSOR_BITS,
    decode,
    pattern_bytes,
    pattern_words,
    trial_key,
)

LAST_TENSOR = (1 << TENSOR_BITS) - 1
LAST_WORD = (1 << INDEX_BITS) - 1


@pytest.mark.parametrize("tensor", [0, 1, 4405, LAST_TENSOR])
@pytest.mark.parametrize("first", [0, 12345, LAST_WORD - 99])
def test_words_decode_to_their_tensor_and_index(tensor: int, first: int) -> None:
    key = trial_key(7, 3)
    tensors, index = decode(pattern_words(tensor, first, 100, key), key)
    assert set(tensors.tolist()) == {tensor}
    np.testing.assert_array_equal(index, np.arange(first, first + 100))


def test_under_another_key_hardly_a_word_decodes_to_its_index() -> None:
    words = pattern_words(5, 1000, 100_000, trial_key(0, 0))
    _, index = decode(words, trial_key(0, 1))
    assert not (index == np.arange(1000, 101_000)).any()


def test_at_one_word_no_two_tensors_are_alike() -> None:
    key = trial_key(1, 2)
    words = {int(pattern_words(tensor, 77, 1, key)[0]) for tensor in range(5000)}
    assert len(words) == 5000


@pytest.mark.parametrize("changed", ["tensor", "key"])
def test_each_byte_changes_as_by_chance(changed: str) -> None:
    """Of the bytes of two patterns, one in 256 agrees, wherever in the word it stands."""
    one = pattern_words(20, 0, 50_000, trial_key(0, 0))
    other = pattern_words(21, 0, 50_000, trial_key(0, 0))
    if changed == "key":
        other = pattern_words(20, 0, 50_000, trial_key(0, 1))
    agree = (one.view(np.uint8) == other.view(np.uint8)).reshape(-1, 8).mean(0)
    assert (agree < 3 / 256).all()


@pytest.mark.parametrize("offset", range(17))
def test_bytes_are_those_of_the_words_they_lie_in(offset: int) -> None:
    key = trial_key(2, 0)
    words = pattern_words(9, 0, 8, key).view(np.uint8)
    for size in (0, 1, 7, 8, 9, 30):
        np.testing.assert_array_equal(
            pattern_bytes(9, offset, size, key), words[offset : offset + size]
        )


def test_every_seed_and_trial_has_a_key_of_its_own() -> None:
    keys = {trial_key(seed, trial) for seed in range(40) for trial in range(40)}
    assert len(keys) == 40 * 40
