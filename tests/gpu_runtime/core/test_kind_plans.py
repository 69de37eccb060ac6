"""Columns that do not fit together are refused before anything is predicted by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpu_runtime._core import Book, KindPlan, PlannedAllocator, SimulatedMemory
from tests.gpu_runtime.core.books import Slot, exact, kind_plan

pytestmark = pytest.mark.core

SLOT = Slot(1, 5)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (kind_plan([replace(SLOT, least=0)]), "at least one byte.* found 0 to 5, request 0"),
        (kind_plan([replace(SLOT, least=-5)]), "at least one byte"),
        (kind_plan([replace(SLOT, least=6)]), "at most its most, found 6 to 5"),
        (kind_plan([SLOT, replace(SLOT, offset=1)]), "multiples of 512.*request 1 at 1"),
        (kind_plan([replace(SLOT, offset=-512)]), "multiples of 512"),
        (kind_plan([replace(SLOT, offset=-2)]), "multiples of 512"),
        (kind_plan([replace(SLOT, spare=100)]), "multiples of 512.* at 100"),
        (kind_plan([Slot(513, 513, 0, 3584)]), "within the arena of 4096 bytes"),
        (kind_plan([Slot(513, 513, 0, 0, 3584)]), "within the arena of 4096 bytes"),
        (kind_plan([replace(SLOT, offset=4096)]), "within the arena"),
        (kind_plan([replace(SLOT, offset=1 << 62)]), "within the arena"),
        (kind_plan([SLOT], label=-2), "a label is at least -1, found -2"),
    ],
)
def test_what_is_no_plan_is_refused(kind: KindPlan, rule: str) -> None:
    with pytest.raises(ValueError, match=f"book of plans: kind 1: .*{rule}"):
        Book([exact([5]), kind], 4096)
    unplanned = PlannedAllocator(SimulatedMemory(4096, 1 << 20))
    with pytest.raises(ValueError, match=rule):
        unplanned.adopt_book([exact([5]), kind], 4096)
    assert unplanned.figures().arena_bytes == 0


@pytest.mark.parametrize("column", ["least", "most", "offset", "spare"])
def test_every_request_has_an_entry_in_every_column(column: str) -> None:
    columns = {
        name: np.array([value, value])
        for name, value in (("least", 1), ("most", 5), ("offset", 0), ("spare", 0))
    }
    columns[column] = columns[column][:1]
    with pytest.raises(ValueError, match=f"an entry in {column}, found 1 for 2"):
        Book([KindPlan(0, np.array([0, 0]), **columns)], 4096)


def test_more_bytes_than_any_device_has() -> None:
    with pytest.raises(MemoryError, match="no device has as much"):
        Book([], 1 << 49)
    with pytest.raises(MemoryError, match="no device has as much"):
        Book([kind_plan([Slot(1, 1 << 49, 0, -1)])], 4096)


def test_more_kinds_or_streams_than_are_taken() -> None:
    with pytest.raises(ValueError, match="at most 64 kinds of step are taken, found 65"):
        Book([exact([])] * 65, 0)
    with pytest.raises(ValueError, match="at most 256 streams are taken, found 257"):
        Book([kind_plan([replace(SLOT, stream=k) for k in range(300)])], 4096)
    Book([kind_plan([replace(SLOT, stream=k) for k in range(256)])], 4096)
