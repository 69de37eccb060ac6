"""A kind of step: the requests of its steps, with their sizes and lifetimes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gpu_runtime._core import BLOCK_ALIGNMENT, KindRecord
from planners.model.columns import BoolColumn, IntColumn


@dataclass
class StepKind:
    """Steps with the same requests on the same streams, of sizes that may differ.

    A *slot* is a request, by its number in the step. Time is counted in requests of all streams:
    a block that is freed before request ``q`` is made ends at ``q``. In a step of ``n`` requests,
    ``n`` is the end.
    """

    # Unique among all kinds that a program ever had.
    number: int
    label: int
    stream: IntColumn
    # Bytes as requested: the smallest, the largest, and in the last step.
    least: IntColumn
    most: IntColumn
    last: IntColumn
    # The latest end of each slot within its own step; the number of slots if it ever outlived the
    # step.
    end: IntColumn
    # The latest end of each slot among steps that freed it themselves; 0 if none did.
    short_end: IntColumn
    # Columns with a flag for each slot: ever freed; ever still in use when requested again.
    was_freed: BoolColumn
    renewed: BoolColumn
    # By the number of a kind that came later: the latest end of each slot within a step of that
    # kind; 0 if the slot was never in use there.
    later: dict[int, IntColumn] = field(default_factory=dict)
    # Number of steps of this kind; position of the last one among the steps of all kinds.
    seen: int = 0
    last_seen: int = 0

    @classmethod
    def of(cls, record: KindRecord) -> StepKind:
        """Return the kind that a record of the core describes."""
        seen = {each.name: getattr(record, each.name) for each in fields(cls)}
        return cls(**{name: _swapped(value, np.uint8, np.bool_) for name, value in seen.items()})

    def record(self) -> KindRecord:
        """Return this kind as a record, to which the core adds further steps."""
        seen = (getattr(self, each.name) for each in fields(self))
        return KindRecord(*(_swapped(value, np.bool_, np.uint8) for value in seen))

    @property
    def slot_count(self) -> int:
        """Number of requests in a step."""
        return len(self.stream)

    @property
    def escapes(self) -> BoolColumn:
        """Return a flag for each slot: True if it lives too long for a place.

        Its block was never freed; or it was still in use when requested again, and its own step
        never freed it.
        """
        has_short = self.short_end > 0
        return ~(self.was_freed & (has_short | ~self.renewed))

    @property
    def alternates(self) -> BoolColumn:
        """Return True for each slot that was once in use at its next request, and once ended early.

        An example is a gradient that several steps accumulate. The block of the first step stays.
        Each later step adds its own block to it, and frees its own block.
        """
        has_short = self.short_end > 0
        return self.was_freed & self.renewed & has_short

    def on_streams(self, stream: IntColumn) -> StepKind:
        """Return this kind with other handles of its streams."""
        return replace(self, stream=stream)


def block_bytes(size: IntColumn) -> IntColumn:
    """Return sizes in bytes rounded up to whole blocks of the allocator."""
    return -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT


def _swapped(value: Any, found: type, wanted: type) -> Any:
    """Return a column of type `found` as one of type `wanted`, and any other value unchanged."""
    is_found = isinstance(value, np.ndarray) and value.dtype == found
    return value.view(wanted) if is_found else value
