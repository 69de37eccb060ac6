"""What was reserved: the running sum of segments, over all of a trace and over a part."""

from __future__ import annotations

import random

import pytest

from instances.traces.allocation_trace import SEGMENT_KINDS, AllocationTrace
from instances.traces.trace_problem import peak_reserved
from planners.errors import InstanceError
from planners.model.reference import Reference

ALLOC, FREE, MAP, UNMAP = range(4)
MIB = 1 << 20


def trace_with(segments: list[tuple[int, int, int]], *, before: bool = False) -> AllocationTrace:
    """Return a trace of 20 events with segments (event, kind, bytes), one block in it."""
    return AllocationTrace(
        20, [1], [0], [20], [20], before=[before],
        segments=[(event, kind, 0, size, 0) for event, kind, size in segments],
    )  # fmt: skip


def reserved_at_each_event(segments: list[tuple[int, int, int]]) -> list[int]:
    sizes = [
        (event, size if SEGMENT_KINDS[kind] in ("segment_alloc", "segment_map") else -size)
        for event, kind, size in segments
    ]
    return [sum(size for event, size in sizes if event <= now) for now in range(20)]


def test_every_kind_of_segment_counts() -> None:
    segments = [(2, ALLOC, 20 * MIB), (3, MAP, 2 * MIB), (7, FREE, 20 * MIB), (9, MAP, 4 * MIB),
                (11, UNMAP, 6 * MIB)]  # fmt: skip
    trace = trace_with(segments)
    assert peak_reserved(trace, 0, 20) == Reference("PyTorch", 22 * MIB, exact=True)
    # What was reserved before the part, and not given back, counts; what comes after does not.
    assert peak_reserved(trace, 7, 9) == Reference("PyTorch", 22 * MIB, exact=True)
    assert peak_reserved(trace, 8, 9) == Reference("PyTorch", 2 * MIB, exact=True)
    assert peak_reserved(trace, 8, 20) == Reference("PyTorch", 6 * MIB, exact=True)
    assert peak_reserved(trace, 0, 2) == Reference("PyTorch", 0, exact=True)


def test_any_part_of_any_run() -> None:
    rng = random.Random(0)
    for _ in range(300):
        size, segments = 0, []
        for event in sorted(rng.sample(range(20), 8)):
            grows = size == 0 or rng.random() < 0.6
            amount = rng.randint(1, 9) if grows else rng.randint(1, size)
            kind = rng.choice([ALLOC, MAP] if grows else [FREE, UNMAP])
            size += amount if grows else -amount
            segments.append((event, kind, amount))
        begin = rng.randrange(20)
        end = rng.randint(begin + 1, 20)
        at = [0, *reserved_at_each_event(segments)]
        found = peak_reserved(trace_with(rng.sample(segments, len(segments))), begin, end)
        assert found == Reference("PyTorch", max(at[begin : end + 1]), exact=True)


def test_what_was_reserved_before_is_known_as_far_as_it_is_given_back() -> None:
    segments = [(1, ALLOC, 5), (2, FREE, 30), (3, ALLOC, 40)]
    assert peak_reserved(trace_with(segments), 0, 20) == Reference("PyTorch", 40, exact=False)
    assert peak_reserved(trace_with([(1, ALLOC, 5)], before=True), 0, 20) == (
        Reference("PyTorch", 5, exact=False)
    )


def test_without_segments_nothing_is_known() -> None:
    assert peak_reserved(trace_with([]), 0, 20) is None


@pytest.mark.parametrize("sizes", [(-1, 5), (2**62, 2**62)])
def test_sizes_that_no_device_has(sizes: tuple[int, int]) -> None:
    trace = trace_with([(1, ALLOC, sizes[0]), (2, FREE, sizes[1])])
    with pytest.raises(InstanceError, match="field segments: sizes of at least 0"):
        peak_reserved(trace, 0, 20)
