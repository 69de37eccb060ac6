"""The lines of the user's program that made requests which no plan expected."""

from __future__ import annotations

import sys
from types import FrameType

from gpu_runtime._core import Mismatch

# Packages whose frames are not the user's code.
_LIBRARIES = ("torch", "gpu_runtime", "contextlib", "transformers")
_MAX_FRAMES = 200


class MismatchPlaces:
    """A listener to the mismatches of an allocator.

    It does not refer to the allocator, because the allocator keeps its listener alive.
    """

    def __init__(self) -> None:
        self._places: dict[int, str] = {}

    def note(self, mismatch: Mismatch) -> None:
        """Note the program's line, in the thread that makes the request."""
        # In a thread of autograd, this frame is the first one.
        self._places[mismatch.number] = _place_in_program(sys._getframe())

    def of(self, mismatch: Mismatch) -> str:
        """Return ``file:line in function``, or the kind of thread; empty if it was not noted."""
        return self._places.get(mismatch.number, "")

    def clear(self) -> None:
        """Forget all lines."""
        self._places.clear()


def _place_in_program(frame: FrameType | None) -> str:
    """Return the innermost line of the user's own code.

    A thread of autograd runs Python only for a function of the user.
    """
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in _LIBRARIES:
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "a thread of autograd"
