"""Numbers that a program reads from the GPU: they can be printed and added up, not relied on.

Note: what a number stands for
------------------------------
Rationale. Every loop reads its loss to print it, and counts right answers. Fake tensors have no
values, yet a number that is only shown asks for no memory.

Approach. A float is one half, which never divides to infinity, and a whole number is one. What is
computed from them is such a number too. Where a program decides by one, or ``int()`` makes a plain
number of one, a line on standard error names the place. A whole number that is used as a length or
an index is refused there, as memory depends on it. PyTorch may hide the refusal behind an error of
its own, so the place of the refusal is kept.

Limits. ``float()`` of such a number forgets where it comes from, and says nothing.
"""

from __future__ import annotations

import math
import operator
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from instances.extract.record.requests.allocation_mode import ONE_HALF
from planners.errors import InstanceError
from planners.text.plain_text import text_of

ONE = 1
USED_AS_LENGTH = (
    "a whole number that is read from the GPU is used as a length or an index, so that memory "
    "depends on the values of data; give a number of your own there"
)
_PACKAGES = "site-packages"
_OURS = str(Path(__file__).parents[3])
_TORCH = str(Path(torch.__file__).parent)
_said: set[str] = set()


def note(text: str) -> None:
    """Say a line on standard error, once, with the user's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_OURS, _TORCH)):
        frame = frame.f_back
    if frame is None or _PACKAGES in frame.f_code.co_filename:
        return
    line = f"{frame.f_code.co_filename}:{frame.f_lineno}: {text}"
    if line not in _said:
        _said.add(line)
        print(line, file=sys.stderr)


def _note_taken_as(what: str, plain: object) -> None:
    note(
        f"{what} a number that it read from the GPU, which is taken as {plain}; if memory depends "
        f"on it, give a number of your own"
    )


class ReadFloat(float):
    """One half, read from the GPU."""

    __hash__ = float.__hash__

    def __int__(self) -> int:
        _note_taken_as("the program makes a whole number here of", float(self))
        return int(float(self))


class ReadCount:
    """One, read from the GPU as a whole number."""

    value = ONE
    # The code and the line at which a number was last used as a length or an index.
    refused_at: tuple[CodeType, int | None] | None = None

    def __index__(self) -> int:
        """Refuse to be a length or an index."""
        frame = sys._getframe(1)
        ReadCount.refused_at = frame.f_code, frame.f_lineno
        raise InstanceError(USED_AS_LENGTH)

    def __int__(self) -> int:
        _note_taken_as("the program makes a whole number here of", ONE)
        return ONE

    def __float__(self) -> float:
        return float(ONE)

    def __repr__(self) -> str:
        return repr(ONE)

    def __format__(self, spec: str) -> str:
        return format(ONE, spec)

    def __hash__(self) -> int:
        return hash(ONE)


def as_read(value: Any) -> Any:
    """Return a number as one that was read, and anything else as it is."""
    if type(value) is float:
        return ReadFloat(value)
    return ReadCount() if type(value) is int else value


def stand_in(dtype: torch.dtype) -> Any:
    """Return the number that is read from a tensor of a dtype."""
    if dtype == torch.bool:
        return True
    return ReadFloat(ONE_HALF) if dtype.is_floating_point else ReadCount()


def is_refusal(error: BaseException) -> bool:
    """Return whether an error comes from a number that was used as a length or an index."""
    places = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return places[-1:] == [ReadCount.refused_at] or ReadCount.__name__ in text_of(error)


def plain(value: Any) -> Any:
    """Return the number that a number stands for, and anything else as it is."""
    if isinstance(value, ReadCount):
        return ONE
    return float(value) if isinstance(value, ReadFloat) else value


def _computes(compute: Callable[..., Any], is_reflected: bool) -> Callable[..., Any]:
    def run(*operands: Any) -> Any:
        if compute is operator.mul and any(isinstance(one, Sequence) for one in operands):
            raise InstanceError(USED_AS_LENGTH)
        return as_read(compute(*map(plain, reversed(operands) if is_reflected else operands)))

    return run


def _decides(compare: Callable[..., Any]) -> Callable[..., Any]:
    def run(*operands: Any) -> Any:
        _note_taken_as("the program decides here by", plain(operands[0]))
        return compare(*map(plain, operands))

    return run


_kinds: tuple[Any, ...] = (ReadFloat, ReadCount)
for _kind in _kinds:
    for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        setattr(_kind, f"__{_name}__", _computes(getattr(operator, _name), False))
        setattr(_kind, f"__r{_name}__", _computes(getattr(operator, _name), True))
    for _name in ("neg", "pos", "abs"):
        setattr(_kind, f"__{_name}__", _computes(getattr(operator, _name), False))
    for _name in ("ceil", "floor", "trunc"):
        setattr(_kind, f"__{_name}__", _computes(getattr(math, _name), False))
    _kind.__round__ = _computes(round, False)
    for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(_kind, f"__{_name}__", _decides(getattr(operator, _name)))
    _kind.__bool__ = _decides(bool)
