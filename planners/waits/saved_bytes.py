"""What one wait more can save of the heaviest antichain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planners.model.columns import IntColumn
from planners.waits.waiting_streams import Wait, WaitingStreams, Waits


def saved_bytes(
    streams: WaitingStreams, waits: Waits, witness: IntColumn, candidates: Sequence[Wait]
) -> tuple[IntColumn, IntColumn]:
    """Return what each candidate alone saves of an antichain, and the most that it can save.

    The wait (u, v) orders a tensor before another only by paths from a user of the one to u, and
    from v to the producer of the other. The antichain without all tensors of the one kind, or of
    the other, stays one; so at most the lighter kind is saved. All of it is if all users lead to u.
    """
    reach, size = streams.reach(waits), streams.problem.size[witness]
    u, v = np.array(candidates, dtype=np.int64).reshape(-1, 2).T[:, :, None]
    born = reach.leads(v, streams.graph.producer[witness][None, :]) @ size
    ended = np.zeros((2, len(u)), dtype=np.int64)
    for tensor, bytes_ in zip(witness.tolist(), size.tolist(), strict=True):
        led = reach.leads(streams.users_of(tensor)[None, :], u)
        ended += bytes_ * np.array((led.all(axis=1), led.any(axis=1)))
    alone, most = np.minimum(ended, born)
    return alone, most
