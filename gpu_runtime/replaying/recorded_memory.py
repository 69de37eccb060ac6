"""Where the memory of a recorded run lay."""

from __future__ import annotations

import numpy as np

from planners.model.columns import IntColumn
from planners.model.request_sequence import RequestSequence

# Of an expandable segment for small requests; larger requests have larger pages.
SMALL_PAGE_BYTES = 1 << 21


def plain_addresses(requests: RequestSequence) -> IntColumn:
    """Return the addresses of plain segments, in their order."""
    addresses: IntColumn = requests.segments[requests.segments[:, 1] == 0, 2]
    return addresses


def range_addresses(requests: RequestSequence) -> IntColumn:
    """Return where each expandable segment begins, in the order in which they were first used.

    A stream has one for small requests and one for large ones, which first pages were mapped at.
    """
    mapped = requests.segments[requests.segments[:, 1] == 1]
    pool = np.column_stack([mapped[:, 4], mapped[:, 3] <= SMALL_PAGE_BYTES])
    _, first = np.unique(pool, axis=0, return_index=True)
    addresses: IntColumn = mapped[np.sort(first), 2]
    return addresses
