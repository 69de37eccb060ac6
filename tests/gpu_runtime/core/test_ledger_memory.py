"""The ledger of a device: what it refuses, and that its addresses come to an end."""

from __future__ import annotations

import pytest

from gpu_runtime._core import LedgerMemory, PytorchCaching

pytestmark = pytest.mark.core

PAGE = 2 << 20
# All that a ledger has addresses for in one piece.
MOST_BYTES = 1 << 48


@pytest.mark.parametrize("page_bytes", [0, MOST_BYTES + 1])
def test_a_page_is_not_larger_than_all_memory(page_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"page_bytes: from 1 to {MOST_BYTES}, found {page_bytes}"):
        LedgerMemory(page_bytes, MOST_BYTES)


@pytest.mark.parametrize("page_bytes", [PAGE, MOST_BYTES])
def test_no_address_is_given_twice(page_bytes: int) -> None:
    caching = PytorchCaching(LedgerMemory(page_bytes, (1 << 64) - 1))
    pieces = ((1 << 63) - MOST_BYTES) // MOST_BYTES
    assert len({caching.allocate(MOST_BYTES, 0) for _ in range(pieces)}) == pieces
    with pytest.raises(MemoryError, match="all addresses are taken"):
        caching.allocate(MOST_BYTES, 0)
    caching.check()
