"""Where in a program, and for what, a block was allocated: told by the frames of the call."""

from __future__ import annotations

import enum
from typing import Any

from instances.traces.allocation_trace import NO_MODULE
from planners.text.plain_text import one_line

# Most characters of a place, and most distinct places; further ones have no place. Guesses.
MOST_PLACE = 120
MOST_PLACES = 1 << 16
# Most frames of a call that are looked at.
MOST_FRAMES = 256


class FrameKind(enum.StrEnum):
    """What a block holds, by the innermost frame that tells it."""

    OPTIMIZER = "optimizer states"
    BACKWARD = "gradients and other blocks of backward passes"
    WEIGHTS = "weights"
    ACTIVATIONS = "activations and other blocks of forward passes"
    OTHER = "other"
    # Python has no frames in the threads in which PyTorch runs backward passes.
    UNTOLD = "not told: no frames of Python"


SETUP_NAMES = frozenset({
    "_apply", "cpu", "cuda", "from_pretrained", "load_state_dict", "reset_parameters", "to",
    "to_empty",
})  # fmt: skip
NO_PLACE = (FrameKind.UNTOLD, "")


class CallPlaces:
    """Numbers the places in a program.

    If `is_shared`, lists of frames stay in memory, and one that stands at many events is looked at
    once.
    """

    def __init__(self, *, is_shared: bool) -> None:
        self.kinds: list[FrameKind] = []
        self.names: list[str] = []
        self._numbers: dict[tuple[FrameKind, str], int] = {}
        self._of_list: dict[int, tuple[FrameKind, str]] | None = {} if is_shared else None

    def number(self, entry: Any) -> int:
        """Return the number of the place of a block or an event; -1 if it has no frames."""
        frames, said = entry.get("frames"), entry.get("user_metadata")
        if self._of_list is None:
            kind, name = _place(frames)
        elif (known := self._of_list.get(id(frames))) is None:
            kind, name = self._of_list[id(frames)] = _place(frames)
        else:
            kind, name = known
        return self.named(kind, said, name)

    def named(self, kind: FrameKind, *words: Any) -> int:
        """Return the number of a place of some words, such as a note of the program on it."""
        name = one_line(", ".join(word for word in words if isinstance(word, str) and word),
                        MOST_PLACE)  # fmt: skip
        if not name:
            return NO_MODULE
        number = self._numbers.get((kind, name))
        if number is None:
            if len(self.names) == MOST_PLACES:
                return NO_MODULE
            number = self._numbers[kind, name] = len(self.names)
            self.kinds.append(kind)
            self.names.append(name)
        return number


def _place(frames: Any) -> tuple[FrameKind, str]:
    """Return what the frames tell, innermost first; what is no frame is left out."""
    called = [
        (frame["name"], frame["filename"], frame.get("line"))
        for frame in (frames[:MOST_FRAMES] if isinstance(frames, list) else ())
        if isinstance(frame, dict)
        and isinstance(frame.get("name"), str) and isinstance(frame.get("filename"), str)
    ]  # fmt: skip
    kind = next((found for name, file, _ in called if (found := _kind(name, file))), None)
    of_python = [frame for frame in called if frame[1].endswith(".py")]
    if not of_python:
        return (kind, called[0][0]) if kind and called else NO_PLACE
    own = (frame for frame in of_python if not _is_of_library(frame[1]))
    name, file, line = next(own, of_python[0])
    short = "/".join(file.replace("\\", "/").split("/")[-2:])
    return kind or FrameKind.OTHER, f"{short}:{line} {name}"


def _is_of_library(file: str) -> bool:
    return "/site-packages/" in file or "/dist-packages/" in file or "/torch/" in file


def _kind(name: str, file: str) -> FrameKind | None:
    if "torch/optim/" in file or "optimizer" in file.rpartition("/")[2]:
        return FrameKind.OPTIMIZER
    if name == "backward" or "torch/autograd/" in file or "torch::autograd::" in name:
        return FrameKind.BACKWARD
    if name in SETUP_NAMES or (name == "__init__" and "torch/nn/" in file):
        return FrameKind.WEIGHTS
    return FrameKind.ACTIVATIONS if name == "forward" else None
