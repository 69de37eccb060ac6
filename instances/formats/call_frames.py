"""The kind of a block, and its place in the program, from the frames of the call."""

from __future__ import annotations

from typing import Any

from instances.traces.allocation_trace import NO_MODULE
from planners.text.plain_text import one_line

# Between the kind and the place.
BETWEEN = " | "
# Most characters of a text, most distinct texts, and most frames that are looked at; guesses.
MOST_TEXT, MOST_TEXTS, MOST_FRAMES = 140, 1 << 16, 256
SETUP_NAMES = frozenset({
    "_apply", "cpu", "cuda", "from_pretrained", "load_state_dict", "reset_parameters", "to",
    "to_empty",
})  # fmt: skip


class CallPlaces:
    """Numbers texts of a kind and a place; with shared frames, each list is looked at once."""

    def __init__(self, *, is_shared: bool) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._of_list: dict[int, tuple[str, str]] | None = {} if is_shared else None

    def number(self, entry: Any) -> int:
        """Return the number for a block or an event; -1 if nothing tells of it."""
        frames = entry.get("frames")
        known = None if self._of_list is None else self._of_list.get(id(frames))
        kind, place = known or _told(frames)
        if self._of_list is not None and known is None:
            self._of_list[id(frames)] = kind, place
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
        words = ", ".join(word for word in (note, place) if isinstance(word, str) and word)
        if not words:
            return NO_MODULE
        text = one_line(f"{kind or 'other'}{BETWEEN}{words}", MOST_TEXT)
        if text not in self._numbers and len(self.texts) < MOST_TEXTS:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers.get(text, NO_MODULE)


def _told(frames: Any) -> tuple[str, str]:
    """Return the kind and the place that frames tell, innermost first; others are left out."""
    called = [
        (frame["name"], frame["filename"].replace("\\", "/"), frame.get("line"))
        for frame in (frames[:MOST_FRAMES] if isinstance(frames, list) else ())
        if isinstance(frame, dict)
        and isinstance(frame.get("name"), str) and isinstance(frame.get("filename"), str)
    ]  # fmt: skip
    kind = next((found for name, file, _ in called if (found := _kind(name, file))), "")
    of_python = [frame for frame in called if frame[1].endswith(".py")]
    if not of_python:
        return kind, called[0][0] if called else ""
    own = (one for one in of_python if "-packages/" not in one[1] and "/torch/" not in one[1])
    name, file, line = next(own, of_python[0])
    return kind, f"{'/'.join(file.split('/')[-2:])}:{line} {name}"


def _kind(name: str, file: str) -> str:
    if "torch/optim/" in file:
        return "optimizer states"
    if name == "backward" or "torch/autograd/" in file or "torch::autograd::" in name:
        return "gradients and the rest of backward passes"
    if name in SETUP_NAMES or (name == "__init__" and "torch/nn/" in file):
        return "weights"
    return "activations and the rest of forward passes" if name == "forward" else ""
