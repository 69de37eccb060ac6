"""One run in the worker that received it: planned in a process of its own, judged, recorded.

Note: two processes for a run
-----------------------------
Rationale. A planner may crash, hang or take all memory. Its measured cost must be its own.

Approach. A worker process, on this machine or in a cluster, unpacks the problem once for all of its
runs and computes its bounds. It forks for each run. The child unpacks the problem anew, so that no
cached fact saves the planner work. The child frees unused memory, plans, and sends findings and
cost. The parent kills the child at its limit and judges the answer.

Limits. The child inherits the resident memory of the parent, so memory that Python keeps for itself
can serve a small run at no cost. A lock that another thread held at the fork stays locked in the
child, which then ends by its limit. Our own workers have one thread; where a cluster's have
several, the first run of a kind is alone.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from evaluation.measuring.resident_memory import (
    give_back_free_memory,
    resident_peak,
    restart_peak,
)
from evaluation.study.record import Record, RunStatus
from evaluation.study.sent_instance import SentInstance, Training
from evaluation.study.study import Plugin, RunLimits
from evaluation.study.surroundings import commit, this_machine, versions
from planners.answers.planner_answer import plain_parameters
from planners.files.json_file import compact_json
from planners.model.budget import Budget
from planners.model.online_result import OnlineDevice
from planners.model.problem import Scalar
from planners.processes.isolated_process import Ended, call_isolated
from planners.registry import Chosen

Value = TypeVar("Value")
AnyKind = TypeVar("AnyKind", bound=Record)
# Fields of a record, its status and reason among them.
Found = dict[str, Any]

# Most bytes of the fields of a record, or in front of a plan. A guess.
MOST_FIELD_BYTES = 1 << 20


@dataclass(frozen=True)
class Named:
    """A planner or an allocator that a study runs."""

    planner: str
    # The name with all parameters that differ from the defaults, as on the command line.
    label: str
    # All parameters.
    parameters: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class RunTask:
    """All that is needed to make one run and its record."""

    study: str
    run: str
    asked: str
    instance: SentInstance | Training
    # The name of the kind of run, as in `evaluation.study.kinds`.
    kind: str
    named: Named
    # Name and digest of the plugin that registers the planner.
    plugin: dict[str, str]
    seed: int
    repetition: int
    limits: RunLimits
    device: OnlineDevice
    timed: bool
    bounds_seconds: float
    plugins: tuple[Plugin, ...]

    @property
    def budget(self) -> Budget:
        """The budget that the planner is given."""
        limits = self.limits
        return Budget(limits.budget_seconds, limits.node_limit, limits.threads, self.seed)

    def said(self, moment: datetime, status: RunStatus, reason: str | None) -> dict[str, Any]:
        """Return the fields that records of every kind share, without those of an answer."""
        return {
            "study": self.study,
            "run": self.run,
            "asked": self.asked,
            "instance": self.instance.name,
            "instance_digest": self.instance.digest,
            "planner": self.named.planner,
            "parameters": dict(self.named.parameters),
            "plugin": self.plugin,
            "seed": self.seed,
            "budget_seconds": self.limits.budget_seconds,
            "repetition": self.repetition,
            "status": status,
            "reason": reason,
            "timed": self.timed,
            "machine": this_machine(),
            "versions": versions(),
            "commit": commit(),
            "moment": moment,
        }


@dataclass(frozen=True)
class Cost:
    """The cost of a planner's call alone."""

    processor_seconds: float
    wall_seconds: float
    # None if the system does not report it.
    peak_resident_bytes: int | None


def now() -> datetime:
    """Return the moment as a record has it."""
    return datetime.now(UTC).replace(microsecond=0)


def in_a_process(
    limits: RunLimits, most_bytes: int, answer: Callable[[], tuple[Cost, bytes]]
) -> tuple[Cost, bytes] | Ended:
    """Return the cost of an answer, and the answer, from a process that is held to the limits."""

    def in_the_child() -> bytes:
        # The collector need not search the objects of the parent.
        gc.freeze()
        # Prints of a planner go to standard error.
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        cost, found = answer()
        return compact_json(asdict(cost)).encode() + b"\n" + found

    sent = call_isolated(
        in_the_child,
        seconds=limits.seconds,
        memory_bytes=limits.memory_bytes,
        most_bytes=MOST_FIELD_BYTES + most_bytes,
    )
    if isinstance(sent, Ended):
        return sent
    prefix, _, found = sent.partition(b"\n")
    return Cost(**json.loads(prefix)), found


def found_in_a_process(
    limits: RunLimits, answer: Callable[[], tuple[Cost, Found]]
) -> tuple[Cost, Found] | Ended:
    """Return the cost and the fields of a record from a process that is held to the limits."""

    def packed() -> tuple[Cost, bytes]:
        cost, found = answer()
        return cost, json.dumps(found).encode()

    sent = in_a_process(limits, 0, packed)
    return sent if isinstance(sent, Ended) else (sent[0], json.loads(sent[1]))


def measured_apart(limits: RunLimits, call: Callable[[], Found]) -> tuple[Cost, Found] | Ended:
    """Measure a call in a process of its own, as :func:`found_in_a_process` makes one."""
    return found_in_a_process(limits, lambda: measured(call))


def measured(call: Callable[[], Value]) -> tuple[Cost, Value]:
    """Return the cost of a call, and its value."""
    give_back_free_memory()
    before = restart_peak()
    wall, processor = time.perf_counter(), _processor_seconds()
    value = call()
    processor, wall = _processor_seconds() - processor, time.perf_counter() - wall
    added = None if before is None else max(0, resident_peak() - before)
    return Cost(processor, wall, added), value


def _processor_seconds() -> float:
    """Return CPU seconds of this process and of children it has waited for, such as CBC."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def status_of(ended: Ended, limits: RunLimits) -> tuple[RunStatus, str]:
    """Return the status and the reason of a run whose process sent no answer."""
    if ended.late:
        return RunStatus.TIMED_OUT, f"its process was killed after {limits.seconds:g} s"
    reason = f"its process {ended.how}"
    if ended.signal == signal.SIGKILL:
        return RunStatus.OUT_OF_MEMORY, f"{reason}, as the system does where memory is short"
    return RunStatus.CRASHED, reason


def with_cost(record: AnyKind, cost: Cost | None) -> AnyKind:
    """Return a record with the cost of its run."""
    return record if cost is None else msgspec.structs.replace(record, **asdict(cost))


class RunKind(ABC, Generic[AnyKind]):
    """A kind of run: its name is the tag of its records."""

    name: ClassVar[str]
    record: type[AnyKind]
    # True if the answer depends on the device.
    asks_device: ClassVar[bool] = False
    # True if keys name the device, so that a study may have one run on several devices.
    names_device: ClassVar[bool] = False
    # The form of the instance or training that a task of this kind carries.
    runs_on: ClassVar[type[SentInstance] | type[Training]]

    @property
    def in_grid(self) -> str:
        """The key of a grid that lists planners or allocators of this kind."""
        return self.name

    @property
    def prefix(self) -> str:
        """The prefix of the planner's name in the keys of runs."""
        return f"{self.name}/"

    @abstractmethod
    def choose(self, text: str) -> Sequence[Named]:
        """Return the planners or allocators that a text names, as on the command line."""

    def blank(
        self, task: RunTask, moment: datetime, status: RunStatus, reason: str | None = None
    ) -> AnyKind:
        """Return a record that has the status of a run and no answer."""
        return self.record(**task.said(moment, status, reason), **self.own_fields(task))

    def recorded(
        self, task: RunTask, moment: datetime, sent: tuple[Cost, Found] | Ended
    ) -> AnyKind:
        """Return the record of the fields that a process sent, or of its end."""
        if isinstance(sent, Ended):
            return self.blank(task, moment, *status_of(sent, task.limits))
        cost, found = sent
        blank = self.blank(task, moment, RunStatus(found["status"]))
        return with_cost(msgspec.structs.replace(blank, **{**found, "status": blank.status}), cost)

    def own_fields(self, _task: RunTask) -> dict[str, Any]:
        """Return the fields that records of this kind have besides those of every record."""
        return {}

    @abstractmethod
    def carry_out(self, task: RunTask, moment: datetime) -> AnyKind:
        """Make a run within its limits; every ending of the run becomes a record."""


class InstanceRuns(RunKind[AnyKind]):
    """A kind of run on an instance or a recording."""

    runs_on = SentInstance

    def own_fields(self, task: RunTask) -> dict[str, Any]:
        assert isinstance(task.instance, SentInstance)
        its = task.instance
        return {"tensors": its.tensors, "family": its.family, "capacity": its.capacity}


def in_registry(choose: Callable[[str], Sequence[Chosen[Any]]], text: str) -> list[Named]:
    """Return the planners that a name or wildcard chooses, with all parameters."""
    return [
        Named(
            each.info.name,
            each.label,
            plain_parameters({**each.info.defaults, **each.parameters}),
        )
        for each in choose(text)
    ]
