"""What a device does for a verification, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.trial import Trial


@dataclass(frozen=True)
class ForeignWords:
    """Whole words of a tensor that hold another tensor's pattern."""

    victim: int
    writer: int
    # How many bytes of the plan the words stand for; a word that was checked by several nodes
    # counts each time.
    plan_bytes: int
    # Index in the arena of one of them, the lowest where the device knows.
    first_word: int


@dataclass(frozen=True)
class BrokenWord:
    """A word that is no whole pattern of any tensor: several share it, or nobody stamped it."""

    # Tensor that was checked.
    victim: int
    # Index in the arena.
    word: int
    # Its 64 bits, zeros for bytes that do not belong to the victim.
    found: int
    # A bit for each byte that belongs to the victim, the lowest for the first.
    mask: int


@dataclass(frozen=True)
class DeviceOutcome:
    """What a trial found."""

    # Time that the program took on the device.
    seconds: float
    # What was not as stamped; empty for a right plan.
    foreign: list[ForeignWords] = field(default_factory=list)
    broken: list[BrokenWord] = field(default_factory=list)
    # Wrong words that there was no room to report.
    lost: int = 0
    # Whether Ctrl-C ended it before its end.
    interrupted: bool = False


@dataclass(frozen=True)
class DeviceFigures:
    """What a device is and holds."""

    name: str
    # What was asked for: the layout's arena.
    arena_bytes: int
    # What the allocator took for it.
    reserved_bytes: int
    # Touched in one trial.
    stamped_bytes: int
    checked_bytes: int
    # Measured with a large copy, bytes read and written.
    copy_bytes_per_second: float


class Device(Protocol):
    """Memory with streams, loaded with one program and one layout."""

    @property
    def figures(self) -> DeviceFigures:
        """What it is and holds."""

    def run(self, trial: Trial) -> DeviceOutcome:
        """Run the whole program once, under the delays and the key of a trial."""

    def close(self) -> None:
        """Give everything back."""


OpenDevice = Callable[[StampCheckProgram, Layout], Device]
