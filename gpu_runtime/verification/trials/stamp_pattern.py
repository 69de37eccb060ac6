"""The pattern: what a tensor's bytes hold, such that foreign bytes name who wrote them.

Note: one word, one writer.
Rationale: a word of the arena holds ``mix(word index, tensor)`` under the key of the trial. The
mixing is a bijection of 64 bits, so at one word no two tensors have the same pattern, and the
pattern of a foreign tensor leads back to that tensor; the word index, which is known, proves the
decoding right. Words are counted from the start of the arena, not of the tensor: tensors may start
at any byte, and so the words of any two line up all the same.
Approach: multiply, fold the upper half into the lower, multiply. That is cheap enough for a GPU to
stay bound by its memory, and every byte depends on the tensor and on the trial.
Limits: 2**25 tensors, 2**39 words (4 TiB). Where two tensors share a part of a word only, a byte
looks right by chance once in 256 trials.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

WORD_BYTES = 8
TENSOR_BITS = 25
INDEX_BITS = 64 - TENSOR_BITS
MULTIPLIER_1 = 0x9E3779B97F4A7C15
MULTIPLIER_2 = 0xD6E8FEB86659FD93

_BIT_64 = 1 << 64
_INVERSE_1 = pow(MULTIPLIER_1, -1, _BIT_64)
_INVERSE_2 = pow(MULTIPLIER_2, -1, _BIT_64)
_HALF = np.uint64(32)

Words = NDArray[np.uint64]


def trial_key(seed: int, trial: int) -> int:
    """Return the 64 bits under which a trial stamps."""
    digest = hashlib.blake2b(f"{seed}/{trial}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def pattern_words(tensor: int, first: int, count: int, key: int) -> Words:
    """Return the pattern of a tensor over consecutive words of the arena."""
    packed = np.arange(first, first + count, dtype=np.uint64)
    packed <<= np.uint64(TENSOR_BITS)
    packed += np.uint64((tensor + key) % _BIT_64)
    packed *= np.uint64(MULTIPLIER_1)
    packed ^= packed >> _HALF
    packed *= np.uint64(MULTIPLIER_2)
    return packed


def pattern_bytes(tensor: int, offset: int, size: int, key: int) -> NDArray[np.uint8]:
    """Return the pattern of a tensor over a range of arena bytes, which may begin in mid-word."""
    first = offset // WORD_BYTES
    count = -(-(offset + size) // WORD_BYTES) - first
    begin = offset - first * WORD_BYTES
    return pattern_words(tensor, first, count, key).view(np.uint8)[begin : begin + size]


def decode(words: Words, key: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tensor and the word index whose pattern each word is.

    Other bits decode to some tensor and word too. The tensor is true only if the decoded word index
    is that of the word that was read.
    """
    packed = words * np.uint64(_INVERSE_2)
    packed ^= packed >> _HALF
    packed *= np.uint64(_INVERSE_1)
    packed -= np.uint64(key)
    tensors = packed & np.uint64((1 << TENSOR_BITS) - 1)
    return tensors.astype(np.int64), (packed >> np.uint64(TENSOR_BITS)).astype(np.int64)
