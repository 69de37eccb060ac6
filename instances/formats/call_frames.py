"""The kind of a block, and its place in the program, from the frames of the call."""

from __future__ import annotations

from typing import Any

from instances.traces.allocation_trace import NO_MODULE
from planners.text.plain_text import one_line

# Between the kind and the place.
BETWEEN = " | "
# Most characters of a text, most distinct texts, and most frames that are looked at or known;
# guesses.
MOST_TEXT, MOST_TEXTS, MOST_FRAMES, MOST_KNOWN = 140, 1 << 16, 256, 1 << 15
FRAME_KEYS = ("name", "filename")
# The frame with the highest rank names the place: 1 is outside of Python, 2 in a Python library.
OWN = 3
SETUP_NAMES = frozenset({
    "_apply", "cpu", "cuda", "from_pretrained", "load_state_dict", "reset_parameters", "to",
    "to_empty",
})  # fmt: skip


class CallPlaces:
    """Numbers texts of a kind and a place."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[tuple[str, str, str], int] = {}
        # By identity, because a pickle shares frames; the frame itself keeps that from another one.
        self._frames: dict[int, tuple[Any, str, int, str]] = {}

    def number(self, entry: Any) -> int:
        """Return the number for a block or an event; -1 if nothing tells of it."""
        kind, place = self._told(entry.get("frames"))
        return self._number(kind, entry.get("user_metadata"), place)

    def told(self, entry: Any) -> str:
        """Return the text for a block or an event; empty if nothing tells of it."""
        number = self.number(entry)
        return "" if number == NO_MODULE else self.texts[number]

    def noted(self, number: int, note: Any) -> int:
        """Return the number of a text with a note of the program in front of the place."""
        kind, _, place = ("" if number == NO_MODULE else self.texts[number]).partition(BETWEEN)
        return self._number(kind, note, place)

    def _number(self, kind: str, note: Any, place: str) -> int:
        key = (kind, note if isinstance(note, str) else "", place)
        words = ", ".join(filter(None, key[1:]))
        if words and key not in self._numbers and len(self.texts) < MOST_TEXTS:
            self._numbers[key] = len(self.texts)
            self.texts.append(one_line(f"{kind or 'other'}{BETWEEN}{words}", MOST_TEXT))
        return self._numbers.get(key, NO_MODULE)

    def _told(self, frames: Any) -> tuple[str, str]:
        """Return the kind and the place that frames tell, innermost first; others are left out."""
        kind, place, best = "", "", 0
        for frame in frames[:MOST_FRAMES] if isinstance(frames, list) else ():
            known = self._frames.get(id(frame))
            if known is None:
                if len(self._frames) >= MOST_KNOWN:
                    self._frames.clear()
                known = self._frames[id(frame)] = (frame, *_frame(frame))
            _, its_kind, worth, its_place = known
            kind = kind or its_kind
            if worth > best:
                place, best = its_place, worth
            if kind and best == OWN:
                break
        return kind, place


def _frame(frame: Any) -> tuple[str, int, str]:
    """Return the kind of a frame, how much its place is worth, and its place."""
    name, file = (frame.get(key) if isinstance(frame, dict) else None for key in FRAME_KEYS)
    if not isinstance(name, str) or not isinstance(file, str):
        return "", 0, ""
    file = file.replace("\\", "/")
    if not file.endswith(".py"):
        return _kind(name, file), 1, name
    is_own = "-packages/" not in file and "/torch/" not in file
    place = f"{'/'.join(file.split('/')[-2:])}:{frame.get('line')} {name}"
    return _kind(name, file), OWN if is_own else 2, place


def _kind(name: str, file: str) -> str:
    if "torch/optim/" in file:
        return "optimizer states"
    if name == "backward" or "torch/autograd/" in file or "torch::autograd::" in name:
        return "gradients and the rest of backward passes"
    if name in SETUP_NAMES or (name == "__init__" and "torch/nn/" in file):
        return "weights"
    return "activations and the rest of forward passes" if name == "forward" else ""
