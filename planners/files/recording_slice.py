"""Slices of recordings: the part of a run that is planned, and the rounding of its sizes."""

from __future__ import annotations

from dataclasses import dataclass

from planners.errors import GaplessError
from planners.model.columns import is_whole
from planners.text.plain_text import shown

LAST = -1
MAX_ROUND_TO = 1 << 40


@dataclass(frozen=True)
class RecordingSlice:
    """The part of a recording that becomes a problem; by default the whole recording."""

    # Number of one iteration from 0, or from the end if it is negative: -1 is the last. None for
    # the whole recording.
    iteration: int | None = None
    # True to plan blocks that were allocated before the slice and outlive it.
    persistent: bool = True
    # Sizes are rounded up to multiples of this many bytes.
    round_to: int = 1
    # Patterns of modules whose requests are dynamic, besides requests whose size is seen to vary.
    dynamic_modules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        fault = rounding_fault(self.round_to)
        if fault:
            raise GaplessError(f"--round-to: {fault}")
        if self.dynamic_modules and self.iteration is None:
            raise GaplessError(
                "--dynamic-modules: dynamic requests are told apart within one iteration only; "
                "choose one with --iteration"
            )

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the command line that are not at their defaults."""
        asked = {
            "--iteration": self.iteration is not None,
            "--no-persistent": not self.persistent,
            "--round-to": self.round_to != 1,
            "--dynamic-modules": bool(self.dynamic_modules),
        }
        return tuple(option for option, is_asked in asked.items() if is_asked)


def rounding_fault(round_to: int) -> str:
    """Return the fault of a number of bytes to round sizes up to; empty if there is none."""
    if is_whole(round_to, 1, MAX_ROUND_TO):
        return ""
    return f"sizes are multiples of 1 to {MAX_ROUND_TO} bytes, found {shown(round_to)}"


def parse_iteration(text: str) -> int | None:
    """Return the number of the iteration that ``--iteration`` names; None for all."""
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
