"""The interface of a device of a verification, and the types of its findings."""

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
    # Bytes of the plan that the words stand for; a word that several nodes checked counts each
    # time.
    plan_bytes: int
    # Arena index of one of the words: of the lowest one, if the device knows which that is.
    first_word: int


@dataclass(frozen=True)
class BrokenWord:
    """A word without a whole pattern of a tensor: several tensors share it, or none stamped it."""

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
    """The findings of a trial."""

    # Time of the program on the device.
    seconds: float
    # Wrong words; empty for a right plan.
    foreign: list[ForeignWords] = field(default_factory=list)
    broken: list[BrokenWord] = field(default_factory=list)
    # Wrong words that the device had no room to report.
    lost: int = 0
    # True if Ctrl-C ended it before its end.
    interrupted: bool = False


@dataclass(frozen=True)
class DeviceFigures:
    """Name, memory and copy rate of a device."""

    name: str
    # Bytes of the layout's arena.
    arena_bytes: int
    # Bytes that the allocator took for the arena.
    reserved_bytes: int
    # Bytes stamped and checked in one trial.
    stamped_bytes: int
    checked_bytes: int
    # Bytes read and written a second by a large copy.
    copy_bytes_per_second: float


class Device(Protocol):
    """Memory with streams, loaded with one program and one layout."""

    @property
    def figures(self) -> DeviceFigures: ...

    def run(self, trial: Trial) -> DeviceOutcome:
        """Run the whole program once, under the delays and the key of a trial."""

    def close(self) -> None: ...


OpenDevice = Callable[[StampCheckProgram, Layout], Device]
