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
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from evaluation.study.typed_values import typed
from planners.errors import InstanceError, errors_at
from planners.model.columns import INT64_MAX
from planners.model.plan import Status
from planners.text.byte_units import counted

SCHEMA: Literal[1] = 1
# A planner may tell a thousand statistics and ten thousand incumbents.
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


class RunStatus(enum.StrEnum):
    """How a run ended: the verdict on its answer, or the reason for having none."""

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
    """Where a run was made.

    Parameters
    ----------
    processor
        Its name, as the system tells it.
    cores
        Those that the process may use.
    memory_bytes
        Of the machine.
    system
        Name and release of the operating system.
    """

    processor: Text
    cores: Count
    memory_bytes: Count
    system: Text

    def is_like(self, other: Machine) -> bool:
        """Return whether times of both compare; how much memory the system tells may differ."""
        mine = (self.processor, self.cores, self.system)
        return mine == (other.processor, other.cores, other.system)

    def __str__(self) -> str:
        return f"{self.processor}, {counted(self.cores, 'core')}, {self.system}"


class Record(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """What is kept of one run of any kind.

    Parameters
    ----------
    study, run
        Name of the study, and the readable key of the run, which the study has once.
    asked
        Digest of all that decides the answer: instance, planner, limits. A record answers for a
        run of a study only where both ask the same.
    instance, instance_digest
        What it was run on: an instance, a recording or a training, and the digest of its content.
    planner, parameters, seed, budget_seconds, repetition
        What was run on it.
    status, reason
        How that ended, and why where it needs saying.
    peak
        Bytes of the plan, or the peak that an allocator reserved; None without one.
    processor_seconds, wall_seconds, peak_resident_bytes
        What the planner alone took, and the memory that the run added; None where it did not end.
    statistics
        Counters of the planner.
    plugin
        Name and digest of the file that registered the planner; empty where it is no plugin's.
    timed
        Whether its times count: it ran on one core of its own.
    machine, versions, commit, moment
        Where, with what, and when it began.
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
        """What was run: the name of one of ``evaluation.study.kinds.KINDS``."""
        return str(self.__struct_config__.tag)

    @property
    def failed(self) -> bool:
        """Whether the planner broke a rule or a limit."""
        return self.status in FAILED

    @property
    def label(self) -> str:
        """The planner with its parameters, as they are written on the command line."""
        values = (f"{key}={value}" for key, value in self.parameters.items())
        return ":".join([self.planner, *values])

    def to_json(self) -> str:
        """Return the record as one line, without its end."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str | bytes, where: object) -> AnyRecord:
        """Read a record from its line.

        Parameters
        ----------
        text
            The line.
        where
            File and line, for what is wrong with it.

        Returns
        -------
        Record
            Of the kind that the line names, with a value of the right type in every field.

        Raises
        ------
        InstanceError
            The line is no record; the message says which rule it breaks.
        """
        try:
            return _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            with errors_at(where):
                return _read_slowly(text)


class InstanceRecord(Record, frozen=True, kw_only=True):
    """What is kept of a run on an instance: of a planner, or of an online allocator.

    Parameters
    ----------
    tensors, family
        Number of tensors; what generated the instance, None where that is a file.
    lower_bound, certificate, bounds
        Bytes that no plan stays below, and what proves that; all quick bounds by name.
    """

    tensors: Count
    family: Text | None = None
    lower_bound: Count | None = None
    certificate: Text | None = None
    bounds: Mapping[str, Count] = {}


class OffsetsRecord(InstanceRecord, frozen=True, kw_only=True, tag="offsets"):
    """A planner on an instance.

    Parameters
    ----------
    incumbents
        Pairs of seconds since the begin and the peak that was reached then; empty where a planner
        tells none.
    """

    incumbents: tuple[
        Annotated[tuple[Seconds, Count], Meta(description="a pair of seconds and bytes")], ...
    ] = ()


class OnlineRecord(InstanceRecord, frozen=True, kw_only=True, tag="online"):
    """An online allocator on a recording.

    Parameters
    ----------
    allocated
        Peak that it had in blocks, bytes.
    """

    allocated: Count | None = None


class FitRecord(Record, frozen=True, kw_only=True, tag="fit"):
    """The memory of a training under an allocator, which is the planner of the record.

    Parameters
    ----------
    measured
        Whether the training was run on a GPU; what it takes is predicted without one otherwise.
    requested
        Live peak: bytes that the training had asked for at once.
    """

    measured: bool
    requested: Count | None = None


class TrainingRecord(Record, frozen=True, kw_only=True, tag="training"):
    """A program that was trained under an allocator, which is the planner of the record.

    Parameters
    ----------
    allocated
        Peak that the allocator had in blocks, bytes.
    """

    allocated: Count | None = None


# A record of another kind is one more class above, and one more name here; what makes it is a
# `RunKind` of `evaluation.study.kinds`.
AnyRecord = OffsetsRecord | OnlineRecord | FitRecord | TrainingRecord

RECORDS: dict[str, type[AnyRecord]] = {
    "offsets": OffsetsRecord, "online": OnlineRecord, "fit": FitRecord,
    "training": TrainingRecord,
}  # fmt: skip
# How the line of each record begins; the last one is that of records before they had a kind first.
FIRST_OF_A_LINE = (
    *(f'{{"kind":"{kind}","schema":{SCHEMA},"study":"'.encode() for kind in RECORDS),
    f'{{"schema":{SCHEMA},"study":"'.encode(),
)
_DECODER: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)

# Fields that old records of one kind have from another kind.
_SAID_NOTHING: dict[object, dict[str, Any]] = {
    "offsets": {"allocated": None}, "online": {"incumbents": []},
}  # fmt: skip


def _read_slowly(text: str | bytes) -> AnyRecord:
    """Read a record of before, or say what is wrong with a line."""
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InstanceError(f"the line is no whole JSON text: {error}") from None
    if isinstance(parsed, dict):
        if "schema" not in parsed:
            raise InstanceError(f"field schema: {SCHEMA} is needed, found nothing")
        kind = parsed.get("kind")
        for field, value in _SAID_NOTHING.get(kind if type(kind) is str else "", {}).items():
            if field in parsed and parsed[field] == value:
                del parsed[field]
    return typed(parsed, AnyRecord)
