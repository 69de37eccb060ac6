"""One run of a study as one line of JSON: its question, answer, cost and machine.

Note: a record stands alone
---------------------------
Rationale. Records of one study come from many days, machines and versions. A reader of records has
neither the study nor the machine.

Approach. A line holds all facts of its run, and its ``kind`` says which fields it has besides those
of every run. Values of comparisons, such as gaps, are not in it: one place computes them from
records, so they cannot disagree.

Limits. Every line repeats machine, versions and commit; gzip removes the repetition.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from evaluation.study.typed_values import typed
from planners.errors import InstanceError, errors_at
from planners.model.columns import INT64_MAX
from planners.model.plan import Status
from planners.text.byte_units import counted

SCHEMA: Literal[1] = 1
# Limit of a line: a planner may report a thousand statistics and ten thousand incumbents.
MOST_LINE_BYTES = 1 << 24

Text = Annotated[str, Meta(max_length=4000, description="a text of at most 4000 characters")]
Count = Annotated[
    int, Meta(ge=0, le=INT64_MAX, description="a whole number of at least 0 that fits int64")
]
Seconds = Annotated[
    float, Meta(ge=0, le=sys.float_info.max, description="a number of seconds of at least 0")
]
Value = Annotated[
    Text
    | Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)]
    | Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
    | bool,
    Meta(description="a text, a number, true or false"),
]

# Records with equal subjects are of one instance.
Subject = tuple[str, str, int | None]


class RunStatus(enum.StrEnum):
    """The end of a run: the verdict on its answer, or the reason why it has none."""

    OPTIMAL = Status.OPTIMAL.value
    FEASIBLE = Status.FEASIBLE.value
    INFEASIBLE = Status.INFEASIBLE.value
    NO_PLAN_FOUND = Status.NO_PLAN_FOUND.value
    UNSUPPORTED = Status.UNSUPPORTED.value
    INVALID = Status.INVALID.value
    # Its process ended without an answer.
    CRASHED = "crashed"
    # Its process was killed when its time was over.
    TIMED_OUT = "timed_out"
    # It asked for more memory than a run may have.
    OUT_OF_MEMORY = "out_of_memory"


ANSWERED = (RunStatus.OPTIMAL, RunStatus.FEASIBLE)
"""The statuses of a run that has a valid plan."""

FAILED = (
    RunStatus.INVALID, RunStatus.CRASHED, RunStatus.TIMED_OUT, RunStatus.OUT_OF_MEMORY,
)  # fmt: skip
"""The statuses of a run in which a planner broke a rule or a limit."""


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machine on which a run was made.

    Parameters
    ----------
    processor
        Name of the processor, as the system reports it.
    cores
        Number of cores that the process may use.
    memory_bytes
        Memory of the machine.
    system
        Name and release of the operating system.
    """

    processor: Text
    cores: Count
    memory_bytes: Count
    system: Text

    def is_like(self, other: Machine) -> bool:
        """Return True if times of both machines compare; their memory may differ."""
        mine = (self.processor, self.cores, self.system)
        return mine == (other.processor, other.cores, other.system)

    def __str__(self) -> str:
        return f"{self.processor}, {counted(self.cores, 'core')}, {self.system}"


class Record(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """The record of one run of any kind.

    Parameters
    ----------
    study, run
        Name of the study, and the readable key of the run, unique within the study.
    asked
        Digest of everything that decides the answer: instance, planner, limits. A record answers
        for a run of a study only if both digests are equal.
    instance, instance_digest
        Subject of the run: an instance, a recording or a training; and the digest of its content.
    planner, parameters, seed, budget_seconds, repetition
        The planner or allocator that ran, and its settings.
    status, reason
        How the run ended, and the reason if the status needs one.
    peak
        Peak of the plan, or of the bytes that an allocator reserved; None if there is none.
    processor_seconds, wall_seconds, peak_resident_bytes
        Times of the planner alone, and the memory that the run added; None if it did not end.
    statistics
        Counters of the planner.
    plugin
        Name and digest of the plugin that registered the planner; empty for any other planner.
    timed
        True if its times count, because it ran on a core of its own.
    machine, versions, commit, moment
        The machine, the versions of packages, the commit, and the moment of the beginning.
    """

    schema: Literal[1] = SCHEMA
    study: Text
    run: Text
    asked: Text
    instance: Text
    instance_digest: Text
    planner: Text
    seed: Count
    repetition: Count
    status: RunStatus
    timed: bool
    machine: Machine
    versions: Mapping[str, Text]
    moment: datetime
    parameters: Mapping[str, Value] = {}
    budget_seconds: Seconds | None = None
    reason: Text | None = None
    peak: Count | None = None
    processor_seconds: Seconds | None = None
    wall_seconds: Seconds | None = None
    peak_resident_bytes: Count | None = None
    statistics: Mapping[str, Value] = {}
    plugin: Mapping[str, Text] = {}
    commit: Text | None = None

    @property
    def kind(self) -> str:
        """The kind of the run, one of ``evaluation.study.kinds.KINDS``."""
        return str(self.__struct_config__.tag)

    @property
    def subject(self) -> Subject:
        """The instance that the run was asked about: its name, its content and its capacity."""
        # Records of trainings have no capacity.
        return self.instance, self.instance_digest, getattr(self, "capacity", None)

    @property
    def failed(self) -> bool:
        """True if the planner broke a rule or a limit."""
        return self.status in FAILED

    @property
    def label(self) -> str:
        """The planner with its parameters, as they are written on the command line."""
        values = (f"{key}={value}" for key, value in self.parameters.items())
        return ":".join([self.planner, *values])

    def to_json(self) -> str:
        """Return the record as one line, without a newline."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str | bytes, where: object) -> AnyRecord:
        """Read a record of any kind from its line; file and line begin the message of an error."""
        try:
            return _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            with errors_at(where):
                return _read_slowly(text)


class InstanceRecord(Record, frozen=True, kw_only=True):
    """The record of a run on an instance: of a planner, or of an online allocator.

    Parameters
    ----------
    tensors, family
        Number of tensors, and the generator of the instance; None for a file.
    capacity
        Bytes that a plan had to fit; None if there is no limit, and in records of older versions.
    lower_bound, certificate, bounds
        The best lower bound in bytes, and the name of its proof; all quick bounds by name.
    """

    tensors: Count
    family: Text | None = None
    capacity: Count | None = None
    lower_bound: Count | None = None
    certificate: Text | None = None
    bounds: Mapping[str, Count] = {}


class OffsetsRecord(InstanceRecord, frozen=True, kw_only=True, tag="offsets"):
    """A planner on an instance.

    Parameters
    ----------
    cost, cost_bound
        Cost of the plan, and a lower bound on the cost of any that fits; None without prices.
    incumbents
        Pairs of seconds since the beginning and the peak reached by then; empty if the planner
        reports none.
    """

    cost: Count | None = None
    cost_bound: Count | None = None

    incumbents: tuple[
        Annotated[tuple[Seconds, Count], Meta(description="a pair of seconds and bytes")], ...
    ] = ()


class OnlineRecord(InstanceRecord, frozen=True, kw_only=True, tag="online"):
    """An online allocator on a recording.

    Parameters
    ----------
    allocated
        Peak of the bytes that the allocator had in blocks.
    """

    allocated: Count | None = None


class BudgetRecord(InstanceRecord, frozen=True, kw_only=True, tag="budget"):
    """A budget planner on a training step under a limit.

    Its statistics have the limit and the peak that it is kept within, in bytes, and the seconds of
    the step, of the lower bound and of what the planner adds.
    """


class FitRecord(Record, frozen=True, kw_only=True, tag="fit"):
    """The memory of a training under an allocator, which is the planner of the record.

    Parameters
    ----------
    measured
        True if the training ran on a GPU; otherwise its memory is predicted.
    requested
        Live peak: the most bytes that the training had requested at once.
    """

    measured: bool
    requested: Count | None = None


class LimitedRecord(Record, frozen=True, kw_only=True, tag="limited"):
    """A training step within a limit of memory; its peak is that of the tensors that it made.

    Its statistics have the limit, the predicted and the reserved bytes, the seconds of the step and
    what was predicted of them, and a digest of the loss and all gradients.
    """


class TrainingRecord(Record, frozen=True, kw_only=True, tag="training"):
    """A program that was trained under an allocator, which is the planner of the record.

    Parameters
    ----------
    allocated
        Peak that the allocator had in blocks, bytes.
    """

    allocated: Count | None = None


# A new kind of record needs a class above and a name here; a `RunKind` of
# `evaluation.study.kinds` makes such records.
AnyRecord = OffsetsRecord | OnlineRecord | BudgetRecord | FitRecord | LimitedRecord | TrainingRecord

RECORDS: dict[str, type[AnyRecord]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(AnyRecord)
}
# The first bytes of a record's line. The last entry is for records of older versions, whose lines
# did not begin with the kind.
FIRST_OF_A_LINE = (
    *(f'{{"kind":"{kind}","schema":{SCHEMA},"study":"'.encode() for kind in RECORDS),
    f'{{"schema":{SCHEMA},"study":"'.encode(),
)
_DECODER: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)

# Empty fields of another kind, which older versions wrote.
_SAID_NOTHING: dict[object, dict[str, Any]] = {
    "offsets": {"allocated": None}, "online": {"incumbents": []},
}  # fmt: skip


def _read_slowly(text: str | bytes) -> AnyRecord:
    """Read a record of an older version, or raise an error that names the fault of the line."""
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InstanceError(f"the line is not a whole JSON text: {error}") from None
    if isinstance(parsed, dict):
        if "schema" not in parsed:
            raise InstanceError(f"field schema: {SCHEMA} is needed, found nothing")
        kind = parsed.get("kind")
        for field, value in _SAID_NOTHING.get(kind if type(kind) is str else "", {}).items():
            if field in parsed and parsed[field] == value:
                del parsed[field]
    return typed(parsed, AnyRecord)
