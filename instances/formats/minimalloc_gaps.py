"""The column ``gaps`` of a MiniMalloc CSV: steps in which a tensor needs no memory."""

from __future__ import annotations

import re

from planners.errors import InstanceError
from planners.model.columns import INT64_MAX

_GAP = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


def read_gaps(cell: str, *, inclusive_end: bool) -> list[tuple[int, int]]:
    """Read the gaps of a tensor, ``FIRST-LAST`` apart by spaces, as half-open intervals."""
    gaps = []
    for gap in cell.split():
        steps, at, _window = gap.partition("@")
        if at:
            raise InstanceError(
                "a gap in which the tensor needs no memory at all, as in 5-9, is needed, found "
                f"{gap!r:.40}: in the steps of such a windowed gap a part of the tensor stays, "
                "which the model has no word for; split the tensor into a contiguous chain"
            )
        match = _GAP.fullmatch(steps)
        if match is None:
            raise InstanceError(
                f"gaps FIRST-LAST of whole numbers, as in '5-9 12-14', are needed, found "
                f"{gap!r:.40}"
            )
        first, after = int(match[1]), int(match[2]) + inclusive_end
        if max(first, after) > INT64_MAX:
            raise InstanceError(f"steps that fit int64 are needed, found {gap!r:.40}")
        gaps.append((first, after))
    return gaps
