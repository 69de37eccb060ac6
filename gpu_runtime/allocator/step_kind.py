"""A kind of step: the requests that its steps make, how large, and how long their memory lives."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gpu_runtime._core import BLOCK_ALIGNMENT, KindRecord
from planners.model.columns import BoolColumn, IntColumn


@dataclass
class StepKind:
    """Steps with the same requests on the same streams, of sizes that may differ.

    A *slot* is a request, by its number in the step. Time is counted in requests of all streams
    together: what is freed before request ``q`` is made ends at ``q``, and with ``n`` requests
    ``n`` is the end.
    """

    # Of the kind, among all that a program ever had.
    number: int
    label: int
    stream: IntColumn
    # Bytes as requested: the smallest, the largest, and in the last step.
    least: IntColumn
    most: IntColumn
    last: IntColumn
    # The latest end of each slot within its own step; the number of slots where it was in use at
    # the end.
    end: IntColumn
    # The latest end of each slot among the steps that freed it themselves, 0 for none.
    short_end: IntColumn
    # Whether each slot was ever freed, and whether it was ever in use when it was asked for again.
    was_freed: BoolColumn
    renewed: BoolColumn
    # By number of a kind that came after it: until when each slot was in use there, at the latest.
    later: dict[int, IntColumn] = field(default_factory=dict)
    # How many steps there were, and which step of all came last.
    seen: int = 0
    last_seen: int = 0

    @classmethod
    def of(cls, record: KindRecord) -> StepKind:
        """Return a kind as it was seen so far."""
        seen = {each.name: getattr(record, each.name) for each in fields(cls)}
        return cls(**{name: _swapped(value, np.uint8, np.bool_) for name, value in seen.items()})

    def record(self) -> KindRecord:
        """Return the kind as the core goes on with it."""
        seen = (getattr(self, each.name) for each in fields(self))
        return KindRecord(*(_swapped(value, np.bool_, np.uint8) for value in seen))

    @property
    def slot_count(self) -> int:
        """Requests in a step."""
        return len(self.stream)

    @property
    def escapes(self) -> BoolColumn:
        """Whether each slot lives too long for a place: it is always renewed, or never freed."""
        has_short = self.short_end > 0
        return ~(self.was_freed & (has_short | ~self.renewed))

    @property
    def alternates(self) -> BoolColumn:
        """Whether each slot was renewed, and freed within its step at other times.

        Gradients are, where they are summed over several steps: the first one stays, and the later
        ones are added to it.
        """
        has_short = self.short_end > 0
        return self.was_freed & self.renewed & has_short

    def on_streams(self, stream: IntColumn) -> StepKind:
        """Return the same kind whose streams have other names."""
        return replace(self, stream=stream)


def block_bytes(size: IntColumn) -> IntColumn:
    """Return sizes in bytes rounded up to whole blocks of the allocator."""
    return -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT


def _swapped(value: Any, found: type, wanted: type) -> Any:
    """Return a column of one type as one of the other, the core's flags being bytes."""
    is_found = isinstance(value, np.ndarray) and value.dtype == found
    return value.view(wanted) if is_found else value
