"""Slices of recordings: which part of a run is planned, and with what sizes."""

from __future__ import annotations

from dataclasses import dataclass

from planners.errors import GaplessError
from planners.text.plain_text import shown

LAST = -1
MAX_ROUND_TO = 1 << 40


@dataclass(frozen=True)
class RecordingSlice:
    """What of a recording becomes a problem; by default the whole recording as it is."""

    # Number of one iteration, from 0, or from the end where negative: -1 is the last. None for the
    # whole recording.
    iteration: int | None = None
    # Whether blocks that were there before, and outlive the slice, are planned.
    persistent: bool = True
    # Sizes are rounded up to multiples of this many bytes.
    round_to: int = 1
    # Patterns of modules whose requests are dynamic, beside those that are found to be.
    dynamic_modules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        fault = rounding_fault(self.round_to)
        if fault:
            raise GaplessError(f"--round-to: {fault}")
        if self.dynamic_modules and self.iteration is None:
            raise GaplessError(
                "--dynamic-modules: what varies is told apart within one iteration; name it with "
                "--iteration"
            )

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the command line that ask for something else than the default."""
        asked = {
            "--iteration": self.iteration is not None,
            "--no-persistent": not self.persistent,
            "--round-to": self.round_to != 1,
            "--dynamic-modules": bool(self.dynamic_modules),
        }
        return tuple(option for option, is_asked in asked.items() if is_asked)


def rounding_fault(round_to: int) -> str:
    """Return what is wrong with a number of bytes to round sizes up to; empty if nothing."""
    if 1 <= round_to <= MAX_ROUND_TO:
        return ""
    limit = "at least 1 byte" if round_to < 1 else f"at most {MAX_ROUND_TO} bytes"
    return f"sizes are multiples of {limit}, found {shown(round_to)}"


def parse_iteration(text: str) -> int | None:
    """Return what ``--iteration`` says."""
    if text == "all":
        return None
    if text == "last":
        return LAST
    # int() takes more than a command line should: underscores, spaces, foreign digits.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise GaplessError(
            f"--iteration: 'all', 'last', or a whole number (-2 is the one before the last) is "
            f"needed, found {shown(text)}"
        )
    return int(text)
