"""What a kind of run is to a study: who is named, what it runs on, and how a run is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Generic

from evaluation.study.record import RunStatus
from evaluation.study.run_task import AnyKind, RunTask
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


class RunKind(ABC, Generic[AnyKind]):
    """A kind of run: its name is the tag of its records."""

    name: ClassVar[str]
    record: type[AnyKind]
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

    def blank(
        self, task: RunTask, moment: datetime, status: RunStatus, reason: str | None = None
    ) -> AnyKind:
        """Return the record of a run of which no more is known than how it ended."""
        return self.record(**task.said(moment, status, reason), **self.own_fields(task))

    @abstractmethod
    def own_fields(self, task: RunTask) -> dict[str, Any]:
        """Return the fields that records of this kind have besides those of every record."""

    @abstractmethod
    def carry_out(self, task: RunTask, moment: datetime) -> AnyKind:
        """Make a run within its limits; whatever it does becomes its record."""


class InstanceRuns(RunKind[AnyKind]):
    """A kind of run on an instance or a recording."""

    runs_on = SentInstance

    def own_fields(self, task: RunTask) -> dict[str, Any]:
        assert isinstance(task.instance, SentInstance)
        return {"tensors": task.instance.tensors, "family": task.instance.family}


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
