"""Small programs of which it is published what PyTorch's allocator holds after each step.

The study `paper-pytorch-allocator` has them: the requests as instances, and the figures as rows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

from evaluation.study.study_file import FOLDER, find_study
from planners.files.problem_file import read_gapless_json

MIB = 1 << 20
SEGMENTS = re.compile(r"(?:(\d+) x )?\((.*?)\)")
BLOCKS = re.compile(r"(?:(\d+) x )?([\d.]+ \w+)")


@dataclass(frozen=True)
class Step:
    """The blocks that are freed and allocated, and the published state after that."""

    # MiB.
    reserved: float
    # The mapped blocks of each segment, such as ``16 active | 4 free``; None if not published.
    layout: list[str] | None
    # The number of each block, and its bytes.
    allocated: tuple[tuple[int, int], ...] = ()
    freed: tuple[int, ...] = ()
    gives_back: bool = False


GIVE_BACK = Step(0, [], gives_back=True)


@dataclass(frozen=True)
class Experiment:
    """Steps under one setting of PyTorch's allocator."""

    is_expandable: bool
    steps: tuple[Step, ...]


def read_experiments() -> dict[str, Experiment]:
    """Return the experiments of the study by name and setting, such as ``kept-apart on``."""
    published = find_study("paper-pytorch-allocator").page["frames"]["published"]["rows"]
    steps: dict[tuple[str, str], list[Step]] = {}
    for name, expandable, number, _, _, reserved, blocks in published:
        problem = read_gapless_json(FOLDER / "allocator-experiments" / f"{name}.json")
        begins, ends = (
            (column == number).nonzero()[0].tolist() for column in (problem.start, problem.end)
        )
        allocated = tuple((block, int(problem.size[block])) for block in begins)
        layout = _layout(blocks) if blocks else None
        its = steps.setdefault((name, expandable), [])
        its.append(Step(reserved, layout, allocated, tuple(ends)))
    return {
        f"{name} {expandable}": Experiment(expandable == "on", tuple(its))
        for (name, expandable), its in steps.items()
    }


def _layout(text: str) -> list[str]:
    """Return the blocks of each segment of a text such as ``2 x (16 free) + (3 x 4 active)``."""
    return sorted(" | ".join(_repeated(BLOCKS, segment)) for segment in _repeated(SEGMENTS, text))


def _repeated(pattern: re.Pattern[str], text: str) -> list[str]:
    return [item for count, item in pattern.findall(text) for _ in range(int(count or 1))]


EXPERIMENTS = read_experiments()


class Laboratory(ABC):
    """An allocator, and the live blocks of an experiment by number."""

    def __init__(self) -> None:
        self.live: dict[int, object] = {}

    def measure(self, steps: tuple[Step, ...]) -> list[tuple[float, list[str]]]:
        """Return what is reserved after each step, in MiB, and the layout of each segment."""
        return [self._measure(step) for step in steps]

    def _measure(self, step: Step) -> tuple[float, list[str]]:
        for block in step.freed:
            self.free(self.live.pop(block))
        for block, size in step.allocated:
            self.live[block] = self.allocate(size)
        if step.gives_back:
            self.give_back()
        return self.reserved_bytes() / MIB, sorted(self.layout())

    @abstractmethod
    def allocate(self, size: int) -> object:
        """Return a block of some bytes."""

    @abstractmethod
    def free(self, block: object) -> None:
        """Free a block."""

    @abstractmethod
    def give_back(self) -> None:
        """Give back what is free."""

    @abstractmethod
    def reserved_bytes(self) -> int:
        """Return what is taken from the device."""

    @abstractmethod
    def layout(self) -> list[str]:
        """Return the mapped blocks of each segment, as ``16 active | 4 free``."""


def expected(steps: tuple[Step, ...]) -> list[tuple[float, list[str] | None]]:
    """Return what is published of each step."""
    return [(step.reserved, step.layout) for step in steps]


def published_of(
    measured: list[tuple[float, list[str]]], steps: tuple[Step, ...]
) -> list[tuple[float, list[str] | None]]:
    """Return of what was measured what is published as well."""
    return [
        (reserved, None if step.layout is None else layout)
        for (reserved, layout), step in zip(measured, steps, strict=True)
    ]
