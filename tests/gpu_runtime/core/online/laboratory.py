"""Small programs of which it is published what PyTorch's allocator holds after each step.

The numbers are those of "When does fragmentation occur in the CUDA caching allocator?", in MiB.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Step:
    """What is asked for, and what is held then."""

    reserved: float
    # The mapped blocks of each segment, in any order; None where it is not published.
    layout: tuple[str, ...] | None
    # A name, how many, and of how many MiB.
    allocated: tuple[str, int, float] | None = None
    # Names, which stand for all blocks of that name, or such as ``ts0`` for one of them.
    freed: tuple[str, ...] = ()
    gives_back: bool = False


def allocate(name: str, count: int, mib: float, reserved: float, *layout: str) -> Step:
    return Step(reserved, layout, allocated=(name, count, mib))


def free(names: str, reserved: float, *layout: str) -> Step:
    return Step(reserved, layout, freed=tuple(names.split()))


GIVE_BACK = Step(0, (), gives_back=True)


@dataclass(frozen=True)
class Experiment:
    """Steps under one setting of PyTorch's allocator."""

    is_expandable: bool
    steps: tuple[Step, ...]


def _active(count: int, tail: int) -> str:
    return " | ".join([*["16 active"] * count, *([f"{tail} free"] if tail else [])])


CUT_AND_JOINED = (
    allocate("t", 1, 32, 32, "32 active"),
    free("t", 32, "32 free"),
    allocate("ts", 2, 16, 32, "16 active | 16 active"),
    free("ts0", 32, "16 free | 16 active"),
    free("ts1", 32, "32 free"),
)
SMALL_THEN_LARGE = (
    allocate("small", 8, 16, 128, *["16 active"] * 8),
    free("small", 128, *["16 free"] * 8),
    allocate("large", 4, 32, 256, *["16 free"] * 8, *["32 active"] * 4),
    free("large", 256, *["16 free"] * 8, *["32 free"] * 4),
)
LARGE_THEN_SMALL = (
    allocate("large", 4, 32, 128, *["32 active"] * 4),
    free("large", 128, *["32 free"] * 4),
    allocate("small", 8, 16, 128, *["16 active | 16 active"] * 4),
    free("small", 128, *["32 free"] * 4),
)
# The third lies in what the second left, and so on.
SEGMENT_SIZES = tuple(
    Step(reserved, None, allocated=(f"block{index}-", 1, mib))
    for index, (mib, reserved) in enumerate(
        (
            (1, 2), (1 + 1 / 2048, 22), (10, 22), (10, 32), (10 - 1 / 2048, 52),
            (10 + 1 / 2048, 52), (10 + 1 / 2048, 64),
        )
    )
)  # fmt: skip
PAGE_BY_PAGE = tuple(
    allocate(f"s{count}-", 1, 16, reserved, _active(count, tail))
    for count, (reserved, tail) in enumerate(
        (
            (20, 4), (40, 8), (60, 12), (80, 16), (80, 0), (100, 4), (120, 8), (140, 12),
        ),
        1,
    )
)  # fmt: skip
ANY_ORDER = (
    allocate("small", 8, 16, 140, _active(8, 12)),
    free("small", 140, "140 free"),
    allocate("large", 4, 32, 140, " | ".join([*["32 active"] * 4, "12 free"])),
    free("large", 140, "140 free"),
)
KEPT_APART = (
    allocate("ts", 4, 16, 80, _active(4, 16)),
    free("ts0 ts2", 80, "16 free | 16 active | 16 free | 16 active | 16 free"),
    allocate("big", 1, 32, 100, "16 free | 16 active | 16 free | 16 active | 32 active | 4 free"),
    free("big", 100, "16 free | 16 active | 16 free | 16 active | 36 free"),
    free("ts1 ts3", 100, "100 free"),
    allocate("again", 1, 32, 100, "32 active | 68 free"),
    free("again", 100, "100 free"),
)
ACROSS_1_MIB = (
    allocate("a", 1, 2, 20, "2 active | 18 free"),
    free("a", 20, "20 free"),
    allocate("b", 1, 0.5, 22, "20 free", "0.5 active | 1.5 free"),
    free("b", 22, "20 free", "2 free"),
    GIVE_BACK,
)
ABOVE_1_MIB = (
    allocate("a", 1, 2, 20, "2 active | 18 free"),
    free("a", 20, "20 free"),
    allocate("b", 1, 2, 20, "2 active | 18 free"),
    free("b", 20, "20 free"),
    GIVE_BACK,
)
EXPERIMENTS = {
    "a block is split and becomes one again": Experiment(False, CUT_AND_JOINED),
    "small then large needs both": Experiment(False, SMALL_THEN_LARGE),
    "large then small needs the large ones only": Experiment(False, LARGE_THEN_SMALL),
    "segments follow from the request that needs them": Experiment(False, SEGMENT_SIZES),
    "pages are mapped as memory is asked for": Experiment(True, PAGE_BY_PAGE),
    "the order does not matter": Experiment(True, ANY_ORDER),
    "what lives keeps free memory apart": Experiment(True, KEPT_APART),
    "small and large requests share nothing": Experiment(True, ACROSS_1_MIB),
    "large requests share": Experiment(True, ABOVE_1_MIB),
}


class Laboratory(ABC):
    """An allocator, and the blocks of an experiment by name."""

    def __init__(self) -> None:
        self.live: dict[str, object] = {}

    def measure(self, steps: tuple[Step, ...]) -> list[tuple[float, list[str]]]:
        """Return what is reserved after each step, in MiB, and the layout of each segment."""
        return [self._measure(step) for step in steps]

    def _measure(self, step: Step) -> tuple[float, list[str]]:
        if step.allocated is not None:
            name, count, mib = step.allocated
            for number in range(count):
                self.live[f"{name}{number}"] = self.allocate(int(mib * MIB))
        for name in step.freed:
            for block in [each for each in self.live if name in (each, each.rstrip("0123456789"))]:
                self.free(self.live.pop(block))
        if step.gives_back:
            self.give_back()
        return self.reserved_bytes() / MIB, sorted(self.layout())

    @abstractmethod
    def allocate(self, size: int) -> object:
        """Return a block of some bytes."""

    @abstractmethod
    def free(self, block: object) -> None:
        """Free a block."""

    @abstractmethod
    def give_back(self) -> None:
        """Give back what is free."""

    @abstractmethod
    def reserved_bytes(self) -> int:
        """Return what is taken from the device."""

    @abstractmethod
    def layout(self) -> list[str]:
        """Return the mapped blocks of each segment, as ``16 active | 4 free``."""


def expected(steps: tuple[Step, ...]) -> list[tuple[float, list[str] | None]]:
    """Return what is published of each step."""
    return [(step.reserved, None if step.layout is None else sorted(step.layout)) for step in steps]


def published_of(
    measured: list[tuple[float, list[str]]], steps: tuple[Step, ...]
) -> list[tuple[float, list[str] | None]]:
    """Return of what was measured what is published as well."""
    return [
        (reserved, None if step.layout is None else layout)
        for (reserved, layout), step in zip(measured, steps, strict=True)
    ]
