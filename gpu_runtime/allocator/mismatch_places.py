"""The lines of the user's program whose requests did not match the plan."""

from __future__ import annotations

import sys
from types import FrameType

from gpu_runtime._core import Mismatch

# Packages whose frames are not part of the user's program.
_LIBRARIES = ("torch", "gpu_runtime", "contextlib", "transformers")
_MAX_FRAMES = 200


class MismatchPlaces:
    """A listener that notes a line of the program for each mismatch of an allocator.

    The allocator keeps its listener alive, so an object that holds the allocator must not be its
    listener.
    """

    def __init__(self) -> None:
        self._places: dict[int, str] = {}

    def note(self, mismatch: Mismatch) -> None:
        """Note the program's current line, in the thread that makes the request."""
        # In a thread of autograd, this frame is the outermost.
        self._places[mismatch.number] = _place_in_program(sys._getframe())

    def of(self, mismatch: Mismatch) -> str:
        """Return ``file:line in function``, or the kind of thread; empty if nothing was noted."""
        return self._places.get(mismatch.number, "")

    def clear(self) -> None:
        """Drop all notes."""
        self._places.clear()


def _place_in_program(frame: FrameType | None) -> str:
    """Return the place of the innermost frame of the user's own code.

    A thread of autograd has such a frame only inside an autograd function of the user.
    """
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in _LIBRARIES:
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "a thread of autograd"
