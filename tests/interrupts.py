"""Ctrl-C at a given attempt, without a clock."""

from __future__ import annotations

import _thread
import itertools
import operator
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pytest

from planners.greedy import place as module

Answer = TypeVar("Answer")


def heard_within(compiled: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return a compiled function to which Ctrl-C comes that only the function itself can hear.

    Python looks for signals between byte codes, and `map` runs none between its two calls.
    """

    def run(*arguments: Any, **keywords: Any) -> Any:
        calls = _thread.interrupt_main, partial(compiled, *arguments, **keywords)
        return list(map(operator.call, calls))[1]

    return run


def pressed_in_child(call: Callable[..., Answer], *, deaf: bool) -> Callable[..., Answer]:
    """Return a call of a child process that first interrupts the parent; deaf, it goes on."""

    def run(*arguments: Any, **keywords: Any) -> Answer:
        if deaf:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.kill(os.getppid(), signal.SIGINT)
        return call(*arguments, **keywords)

    return run


def interrupt_after(monkeypatch: pytest.MonkeyPatch, attempts: int) -> None:
    """Let so many orders be placed, and interrupt the one after them."""
    stop_after(monkeypatch, attempts, KeyboardInterrupt)


def stop_after(monkeypatch: pytest.MonkeyPatch, attempts: int, error: type[BaseException]) -> None:
    """Let so many orders be placed, and raise an error at the one after them."""
    made, place_blocks = itertools.count(), module.place_blocks

    def place(*arguments: Any, **keywords: Any) -> Any:
        if next(made) == attempts:
            raise error
        return place_blocks(*arguments, **keywords)

    monkeypatch.setattr(module, "place_blocks", place)
