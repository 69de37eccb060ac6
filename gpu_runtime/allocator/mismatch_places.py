"""Where in the user's program the requests were made that no plan expected."""

from __future__ import annotations

import sys
from types import FrameType

from gpu_runtime._core import Mismatch

# Frames that are not the user's.
_LIBRARIES = ("torch", "gpu_runtime", "contextlib", "transformers")
_MAX_FRAMES = 200


class MismatchPlaces:
    """Listens to an allocator, and knows of it nothing but the mismatches.

    An allocator keeps its listener alive, so that whoever holds the allocator must not be one.
    """

    def __init__(self) -> None:
        self._places: dict[int, str] = {}

    def note(self, mismatch: Mismatch) -> None:
        """Write down where the program is, in the thread that makes the request."""
        # A thread of autograd has no frame before this one.
        self._places[mismatch.number] = _place_in_program(sys._getframe())

    def of(self, mismatch: Mismatch) -> str:
        """Return ``file:line in function``, or whose thread it was; empty where not noted."""
        return self._places.get(mismatch.number, "")

    def clear(self) -> None:
        """Forget all."""
        self._places.clear()


def _place_in_program(frame: FrameType | None) -> str:
    """Return the innermost frame of the user's own code.

    Autograd's threads run no Python, unless a function of the user's does.
    """
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in _LIBRARIES:
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "a thread of autograd"
