"""What free memory holds where writes to it are looked for: the words once more, in NumPy."""

from __future__ import annotations

import numpy as np


def free_words(address: int, size: int) -> bytes:
    """Return the bytes of free memory at an address."""
    words = np.arange(address // 8, (address + size) // 8, dtype=np.uint64)
    words *= np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(32)
    words *= np.uint64(0xD6E8FEB86659FD93)
    varied = words >> np.uint64(4) & np.uint64(0x000F007F007F007F)
    return (np.uint64(0x7FF17F817F817F81) | varied).tobytes()
