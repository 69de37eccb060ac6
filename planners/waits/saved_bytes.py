"""What one wait more can save of the heaviest antichain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from planners.model.columns import IntColumn
from planners.waits.waiting_streams import Wait, WaitingStreams, Waits


class SavedBytes(NamedTuple):
    """One number a candidate."""

    # What the wait alone saves of the antichain's bytes.
    surely: IntColumn
    # No wait saves more of them.
    most: IntColumn


def saved_bytes(
    streams: WaitingStreams, waits: Waits, witness: IntColumn, candidates: Sequence[Wait]
) -> SavedBytes:
    """Return what each candidate saves of an antichain, whose tensors are given.

    The wait (u, v) orders a tensor before another only by paths from users of the one to u, and
    from v to the producer of the other. The antichain without all tensors of the one kind, or of
    the other, stays one; so at most the lighter kind is saved. It is saved if all users of the
    first tensors lead to u.
    """
    reach = streams.reach(waits)
    size = streams.problem.size[witness]
    u, v = np.array(candidates, dtype=np.int64).reshape(-1, 2).T[:, :, None]
    born = reach.leads(v, streams.graph.producer[witness][None, :]) @ size
    ended = np.zeros((2, len(u), len(witness)), dtype=np.int64)
    for column, tensor in enumerate(witness.tolist()):
        led = reach.leads(streams.users_of(tensor)[None, :], u)
        ended[:, :, column] = led.all(axis=1), led.any(axis=1)
    return SavedBytes(np.minimum(ended[0] @ size, born), np.minimum(ended[1] @ size, born))
