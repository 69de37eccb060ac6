"""The requests and frees of the last steps, which a trial makes again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import LogKind

# Steps that are kept, and rows of their logs, of 48 bytes each. Guesses.
MOST_STEPS = 8
MOST_ROWS = 1 << 19


class RecentSteps:
    """The allocator's logs of the last steps; no step is missing between two of them."""

    def __init__(self) -> None:
        self._logs: deque[NDArray[np.int64]] = deque(maxlen=MOST_STEPS)

    @property
    def logs(self) -> Sequence[NDArray[np.int64]]:
        """One log for each step, the oldest first."""
        return list(self._logs)

    def add(self, log: NDArray[np.int64]) -> None:
        """Add the log of the step that has just ended."""
        if not np.any(log[:, 0] == LogKind.STEP_BEGINS):
            # The allocator drops a log that becomes too long; this is the rest of such a log.
            self.lose_track()
            return
        self._logs.append(log)
        while sum(map(len, self._logs)) > MOST_ROWS:
            self._logs.popleft()

    def lose_track(self) -> None:
        """Forget all steps, because the log of the last one was not read."""
        self._logs.clear()
