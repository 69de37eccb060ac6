"""A recording whose captured graphs share one pool, or have one each."""

from __future__ import annotations

import enum
from dataclasses import replace

import numpy as np

from planners.errors import GaplessError
from planners.model.request_sequence import RequestAction, RequestSequence


class Pools(enum.StrEnum):
    """Which private pool each request is made in."""

    RECORDED = "recorded"
    ONE = "one"
    EACH = "each"


def arranged(requests: RequestSequence, pools: Pools) -> RequestSequence:
    """Return the recording with its requests in other private pools.

    A capture makes no requests elsewhere, so a run of requests in one pool is one capture.
    """
    if pools is Pools.RECORDED:
        return requests
    if not requests.pool.any():
        raise GaplessError(f"--pools: {requests.name} needs requests in private pools, found none")
    ended = np.flatnonzero((requests.action == RequestAction.GIVE_BACK) & (requests.pool > 0))
    if len(ended):
        raise GaplessError(
            f"--pools {pools}: private pools must live to the end of the recording, found one that "
            f"ends at event {requests.event[ended[0]]:,}"
        )
    pool = np.minimum(requests.pool, 1)
    if pools is Pools.EACH:
        rows = requests.allocation_rows
        begins = np.diff(requests.pool[rows], prepend=0) != 0
        pool[rows] *= np.cumsum(begins)
    return replace(requests, pool=pool, segments=requests.segments[:0])
