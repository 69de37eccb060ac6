"""What a kind of run is to a study: who is named, what it runs on, and how a run is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from evaluation.study.record import AnyRecord, RunStatus
from evaluation.study.run_task import RunTask
from evaluation.study.sent_instance import SentInstance, SentTraining
from planners.model.problem import Scalar
from planners.processes.planner_answer import plain_parameters
from planners.registry import Chosen


@dataclass(frozen=True)
class Named:
    """Who answers: a planner or an allocator."""

    planner: str
    # With those parameters that differ from its own, as on the command line.
    label: str
    # All of them.
    parameters: Mapping[str, Scalar] = field(default_factory=dict)


class RunKind(ABC):
    """A kind of run: its name is the tag of its records."""

    name: ClassVar[str]
    # The key of a grid that lists who answers.
    in_grid: ClassVar[str]
    # What the keys of its runs have in front of who answers.
    prefix: ClassVar[str]
    # Whether the device decides what is answered.
    asks_device: ClassVar[bool]
    # Whether keys say which device it is, so that a study may have the same run on several.
    names_device: ClassVar[bool] = False
    # What a task of this kind carries.
    runs_on: ClassVar[type[SentInstance] | type[SentTraining]]

    @abstractmethod
    def choose(self, text: str) -> Sequence[Named]:
        """Return who is meant by a text as on the command line."""

    @abstractmethod
    def blank(
        self, task: RunTask, moment: datetime, status: RunStatus, reason: str | None = None
    ) -> AnyRecord:
        """Return the record of a run of which no more is known than how it ended."""

    @abstractmethod
    def carry_out(self, task: RunTask, moment: datetime) -> AnyRecord:
        """Make a run within its limits; whatever it does becomes its record."""


def in_registry(choose: Callable[[str], Sequence[Chosen[Any]]], text: str) -> list[Named]:
    """Return who is chosen by name or wildcard, with all parameters."""
    return [
        Named(
            each.info.name,
            each.label,
            plain_parameters({**each.info.defaults, **each.parameters}),
        )
        for each in choose(text)
    ]
