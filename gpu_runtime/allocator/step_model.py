"""What a program does, step by step: its kinds of step, learnt from the allocator's log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import REPEATED, ProgramRecord
from gpu_runtime.allocator.step_kind import StepKind
from planners.model.columns import BoolColumn, IntColumn


class StepModel:
    """The kinds of step of a program, and the memory that is in use.

    A step of a kind that was never seen makes a kind; it counts from the second one on. The core
    reads the logs; kinds are as they were when they were asked for.
    """

    def __init__(self, kinds: Iterable[StepKind] = ()) -> None:
        self._record = ProgramRecord([kind.record() for kind in kinds])

    @property
    def version(self) -> int:
        """A number that rises with everything that a plan has to know."""
        return self._record.version

    @property
    def newest_request(self) -> int:
        """The number of the last request of a log that was read, -1 before the first."""
        return self._record.newest_request

    @property
    def knew_last_step(self) -> bool:
        """Whether the last step was of a kind that was seen before."""
        return self._record.knew_last_step

    @property
    def kinds(self) -> list[StepKind]:
        """All kinds with any requests."""
        return [StepKind.of(record) for record in self._record.kinds()]

    @property
    def repeated(self) -> list[StepKind]:
        """Those of which there was more than one step, in the order in which there first was."""
        return self.repeated_now()()

    def repeated_now(self) -> Callable[[], list[StepKind]]:
        """Copy those; whoever needs them makes columns of them, in whichever thread."""
        records = self._record.kinds(REPEATED)
        return lambda: [StepKind.of(record) for record in records]

    def add(self, rows: NDArray[np.int64], in_book: Sequence[int]) -> None:
        """Learn from the log of a step and of what ran before it.

        `in_book` has the number of each kind of the book that was in force meanwhile.
        """
        self._record.add(rows, list(in_book))

    def lose_track(self) -> None:
        """Say that the log of a step is not read."""
        self._record.lose_track()

    def saw(self, numbers: Iterable[int]) -> None:
        """Take steps of known kinds, whose log is not read."""
        self._record.saw(list(numbers))

    def stays(self, request: IntColumn) -> BoolColumn:
        """Return which requests in use are known to stay: of no kind that counts, or never freed.

        Not those of which nothing is known.
        """
        return self._record.stays(np.ascontiguousarray(request)).view(np.bool_)

    def live_bytes(self) -> int:
        """Return the bytes in use of earlier steps, in whole blocks, as far as they were seen."""
        return self._record.live_bytes()
