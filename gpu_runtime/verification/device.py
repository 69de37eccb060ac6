"""What a device does for a verification, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from gpu_runtime.verification.trials import Trial


@dataclass(frozen=True)
class ForeignWords:
    """Whole words of a tensor that hold another tensor's pattern.

    Parameters
    ----------
    victim, writer
        Tensors.
    plan_bytes
        How many bytes of the plan the words stand for; a word that was checked by several nodes
        counts each time.
    first_word
        Index in the arena of one of them, the lowest where the device knows.
    """

    victim: int
    writer: int
    plan_bytes: int
    first_word: int


@dataclass(frozen=True)
class BrokenWord:
    """A word that is no whole pattern of any tensor: several share it, or nobody stamped it.

    Parameters
    ----------
    victim
        Tensor that was checked.
    word
        Index in the arena.
    found
        Its 64 bits, zeros for bytes that do not belong to the victim.
    mask
        A bit for each byte that belongs to the victim, the lowest for the first.
    """

    victim: int
    word: int
    found: int
    mask: int


@dataclass(frozen=True)
class DeviceOutcome:
    """What a trial found.

    Parameters
    ----------
    seconds
        Time that the program took on the device.
    foreign, broken
        What was not as stamped; empty for a right plan.
    lost
        Wrong words that there was no room to report.
    interrupted
        Whether Ctrl-C ended it before its end.
    """

    seconds: float
    foreign: list[ForeignWords] = field(default_factory=list)
    broken: list[BrokenWord] = field(default_factory=list)
    lost: int = 0
    interrupted: bool = False


@dataclass(frozen=True)
class DeviceFigures:
    """What a device is and holds.

    Parameters
    ----------
    name
        As it calls itself.
    arena_bytes
        What was asked for: the layout's arena.
    reserved_bytes
        What the allocator took for it.
    stamped_bytes, checked_bytes
        Touched in one trial.
    copy_bytes_per_second
        Measured with a large copy, bytes read and written.
    """

    name: str
    arena_bytes: int
    reserved_bytes: int
    stamped_bytes: int
    checked_bytes: int
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
