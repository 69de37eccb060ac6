"""Books of plans that are written by hand, and steps that ask them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_runtime._core import NO_PLACE, Book, KindPlan, Place, StepEnd

ARENA_BYTES = 1 << 40


@dataclass(frozen=True)
class Slot:
    """A request of a kind: its stream, and the bytes that were seen."""

    least: int
    most: int
    stream: int = 0
    offset: int = 0
    spare: int = NO_PLACE


def kind_plan(slots: Sequence[Slot], label: int = 0) -> KindPlan:
    """Return the plan of a kind."""

    def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, dtype=np.int64)

    return KindPlan(
        label,
        column([slot.stream for slot in slots]),
        column([slot.least for slot in slots]),
        column([slot.most for slot in slots]),
        column([slot.offset for slot in slots]),
        column([slot.spare for slot in slots]),
    )


def exact(sizes: Sequence[int], label: int = 0) -> KindPlan:
    """Return a kind whose sizes were always the same, each at an offset of its own."""
    return kind_plan([Slot(size, size, 0, 512 * k) for k, size in enumerate(sizes)], label)


def ask(
    book: Book, requests: Sequence[tuple[int, int]], label: int = 0
) -> tuple[list[Place], StepEnd]:
    """Run a step of requests ``(stream, bytes)``; return what was predicted of each."""
    book.begin_step(label)
    places = [book.request(stream, size) for stream, size in requests]
    return places, book.end_step()


def of_sizes(sizes: Sequence[int], stream: int = 0) -> list[tuple[int, int]]:
    """Return requests of one stream."""
    return [(stream, size) for size in sizes]
