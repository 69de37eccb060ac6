"""The published cases of VPMM: two allocations, one freed, two more, with pages to spare or not.

A layout is drawn by address, in pages: ``+4`` is what the request got, ``4`` lives, ``-6`` is free,
``z8`` is a zombie, ``*8`` a hole. The cases draw what moves at the end of what is active; here it
lies as the phases have it, and the sums are those of the cases.
"""

from __future__ import annotations

import pytest

from gpu_runtime._core import (
    CountingMemory,
    LedgerMemory,
    LedgerStreams,
    Vpmm,
    VpmmSettings,
    VpmmState,
    VpmmView,
)

pytestmark = pytest.mark.core

PAGE = 2 << 20
CHUNK_PAGES = 64
SIGNS = {
    VpmmState.LIVE: "",
    VpmmState.PENDING: "?",
    VpmmState.FREE: "-",
    VpmmState.HOLE: "*",
    VpmmState.ZOMBIE: "z",
}


class Case:
    """The scenario, with some pages left after the first two allocations."""

    def __init__(self, left: int) -> None:
        self.ledger = LedgerMemory(PAGE, 1 << 40, LedgerStreams.WHEN_TOLD)
        self.device = CountingMemory(self.ledger)
        settings = VpmmSettings(page_bytes=PAGE, pages=11 + left, chunk_bytes=CHUNK_PAGES * PAGE)
        self.allocator = Vpmm(self.device, settings)
        self.latest = 0

    def allocate(self, pages: int, stream: int = 0) -> str:
        self.latest = self.allocator.allocate(pages * PAGE, stream)
        return self.layout()

    def free(self, address: int) -> str:
        assert self.allocator.free(address)
        self.latest = 0
        return self.layout()

    def layout(self) -> str:
        self.allocator.check()
        return self.draw(self.allocator.regions())

    def draw(self, regions: list[VpmmView]) -> str:
        """Leave the hole at the end out."""
        signs = [
            ("+" if region.address == self.latest else SIGNS[region.state])
            + str(region.bytes // PAGE)
            for region in regions
        ]
        if regions[-1].state == VpmmState.HOLE:
            signs.pop()
        return " ".join(signs)

    def run_to_the_fourth(self) -> str:
        self.allocate(10)
        first = self.latest
        self.allocate(1)
        self.free(first)
        return self.allocate(4)

    def require_own_figures(self) -> dict[str, int]:
        """Compare the allocator's own figures with its regions, and return them."""
        self.allocator.check()
        found = dict(self.allocator.own_figures())
        regions = self.allocator.regions()
        assert found["address_bytes"] == found["chunks"] * CHUNK_PAGES * PAGE
        assert found["address_bytes"] == sum(region.bytes for region in regions)
        for name, state in (("hole", VpmmState.HOLE), ("zombie", VpmmState.ZOMBIE)):
            its = [region.bytes for region in regions if region.state == state]
            assert (found[f"{name}s"], found[f"{name}_bytes"]) == (len(its), sum(its))
        return found

    def pages_in(self, *states: VpmmState) -> int:
        found = (region for region in self.allocator.regions() if region.state in states)
        return sum(region.bytes for region in found) // PAGE


def test_the_first_three_steps() -> None:
    case = Case(5)
    assert case.layout() == "-16"
    assert case.allocate(10) == "+10 -6"
    first = case.latest
    assert case.allocate(1) == "10 +1 -5"
    assert case.free(first) == "-10 1 -5"


@pytest.mark.parametrize(
    ("left", "fourth", "fifth"),
    [
        (12, "+4 -6 1 -12", "4 -6 1 +11 -1"),
        (11, "+4 -6 1 -11", "4 -6 1 +11"),
    ],
)
def test_case_a_has_pages_side_by_side(left: int, fourth: str, fifth: str) -> None:
    case = Case(left)
    assert case.run_to_the_fourth() == fourth
    assert case.allocate(11) == fifth


@pytest.mark.parametrize(
    ("left", "fourth", "moved", "after"),
    [
        # Of two free regions of ten the last one serves.
        (10, "-10 1 +4 -6", "z5 -5 1 4 z6 +11", "*5 -5 1 4 *6 +11"),
        (7, "-10 1 +4 -3", "z8 -2 1 4 z3 +11", "*8 -2 1 4 *3 +11"),
        (5, "-10 1 +4 -1", "z10 1 4 z1 +11", "*10 1 4 *1 +11"),
    ],
)
def test_case_b_moves_pages(left: int, fourth: str, moved: str, after: str) -> None:
    case = Case(left)
    assert case.run_to_the_fourth() == fourth
    assert case.allocate(11) == moved
    case.ledger.finish(0)
    # The next request makes holes of zombies; this one then leaves nothing behind.
    case.free(case.latest)
    assert case.allocate(11) == after


@pytest.mark.parametrize(
    ("left", "fourth", "fifth"),
    [
        (4, "-10 1 +4", "z10 1 4 +11"),
        (3, "+4 -6 1 -3", "4 z6 1 z3 +11"),
        (2, "+4 -6 1 -2", "4 z6 1 z2 +11"),
        (0, "+4 -6 1", "4 z6 1 +11"),
    ],
)
def test_cases_c_and_d_make_pages(left: int, fourth: str, fifth: str) -> None:
    case = Case(left)
    assert case.run_to_the_fourth() == fourth
    assert case.allocate(11) == fifth


@pytest.mark.parametrize("left", range(16))
def test_the_sums_are_those_of_the_cases(left: int) -> None:
    case = Case(left)
    case.run_to_the_fourth()
    case.allocate(11)
    mapped = max(11 + left, 16)
    figures = case.allocator.figures()
    assert figures.allocated_bytes == 16 * PAGE
    assert figures.reserved_bytes == mapped * PAGE
    assert figures.free_bytes == (mapped - 16) * PAGE
    assert case.device.calls.create_pages == mapped
    assert case.pages_in(VpmmState.ZOMBIE) == (0 if left >= 11 else 11 - max(0, 5 - left))
    assert sum(region.bytes for region in case.allocator.regions()) == CHUNK_PAGES * PAGE


@pytest.mark.parametrize("left", range(16))
def test_its_own_figures_are_those_of_its_regions(left: int) -> None:
    case = Case(left)
    case.run_to_the_fourth()
    case.allocate(11)
    moved = case.require_own_figures()
    case.ledger.finish(0)
    case.allocate(1)
    after = case.require_own_figures()
    assert (after["zombies"], after["zombie_bytes"]) == (0, 0)
    assert after["zombie_bytes_peak"] == moved["zombie_bytes"] == moved["zombie_bytes_peak"]
    # No hole has as many pages as a chunk.
    case.allocate(CHUNK_PAGES)
    assert case.require_own_figures()["chunks"] == 2
