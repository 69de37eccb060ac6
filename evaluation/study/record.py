"""One run of a study as one line of JSON: what was run, what it answered, what it took, where.

Note: a record stands alone
---------------------------
Rationale. Records of one study are gathered over days, machines and versions; whoever reads them
has neither the study nor the machine at hand.

Approach. A line says all that is known of its run. What a comparison needs, such as a gap, is not
in it: that is computed from records, in one place, and cannot disagree with them.

Limits. Machine, versions and commit are said again in every line; gzip takes that back.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from planners.errors import InstanceError, errors_at, near_names
from planners.files.json_file import compact_json, refuse
from planners.model.columns import INT64_MAX
from planners.model.plan import Status
from planners.model.problem import Scalar
from planners.text.byte_units import counted

SCHEMA = 1
# How the line of each record begins.
FIRST_OF_A_LINE = f'{{"schema":{SCHEMA},"study":"'.encode()
# A planner may tell a thousand statistics and ten thousand incumbents.
MOST_LINE_BYTES = 1 << 24
MOST_TEXT_CHARACTERS = 4000

Kind = Literal["offsets", "online", "training"]


class RunStatus(enum.StrEnum):
    """How a run ended: what the judge said of an answer, or why there is none."""

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


@dataclass(frozen=True)
class Machine:
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

    processor: str
    cores: int
    memory_bytes: int
    system: str

    def is_like(self, other: Machine) -> bool:
        """Return whether times of both compare; how much memory the system tells may differ."""
        mine = (self.processor, self.cores, self.system)
        return mine == (other.processor, other.cores, other.system)

    def __str__(self) -> str:
        return f"{self.processor}, {counted(self.cores, 'core')}, {self.system}"


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is kept of one run.

    Parameters
    ----------
    study, run
        Name of the study, and the readable key of the run, which the study has once.
    asked
        Digest of all that decides the answer: instance, planner, limits. A record answers for a
        run of a study only where both ask the same.
    instance, instance_digest, tensors, family
        The problem: its name, digest and number of tensors; its family where it was generated. Of a
        training its program, and no tensors.
    planner, kind, parameters, seed, budget_seconds, repetition
        What was run on it.
    status, reason
        How that ended, and why where it needs saying.
    peak
        Bytes of the plan, or the peak that an allocator reserved; None without one.
    allocated
        Peak that an allocator had in blocks, bytes.
    lower_bound, certificate, bounds
        Bytes that no plan stays below, and what proves that; all quick bounds by name.
    processor_seconds, wall_seconds, peak_resident_bytes
        What the planner alone took, and the memory that the run added; None where it did not end.
    incumbents
        Pairs of seconds since the begin and the peak that was reached then; empty where a planner
        tells none.
    statistics
        Counters of the planner.
    plugin
        Name and digest of the file that registered the planner; empty where it is no plugin's.
    timed
        Whether its times count: it ran on one core of its own.
    machine, versions, commit, moment
        Where, with what, and when it began.
    """

    study: str
    run: str
    asked: str
    instance: str
    instance_digest: str
    tensors: int
    planner: str
    kind: Kind
    seed: int
    repetition: int
    status: RunStatus
    timed: bool
    machine: Machine
    versions: Mapping[str, str]
    moment: str
    family: str | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    budget_seconds: float | None = None
    reason: str | None = None
    peak: int | None = None
    allocated: int | None = None
    lower_bound: int | None = None
    certificate: str | None = None
    bounds: Mapping[str, int] = field(default_factory=dict)
    processor_seconds: float | None = None
    wall_seconds: float | None = None
    peak_resident_bytes: int | None = None
    incumbents: tuple[tuple[float, int], ...] = ()
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    plugin: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None

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
        plain: dict[str, Any] = {"schema": SCHEMA}
        plain |= {field.name: getattr(self, field.name) for field in fields(self)}
        machine = {field.name: getattr(self.machine, field.name) for field in fields(Machine)}
        return compact_json(plain | {"machine": machine})

    @classmethod
    def from_json(cls, text: str | bytes, where: object) -> Record:
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
            With a value of the right type in every field.

        Raises
        ------
        InstanceError
            The line is no record; the message says which rule it breaks.
        """
        with errors_at(where):
            return cls(**_values(_parsed(text)))


def _parsed(text: str | bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InstanceError(f"the line is no whole JSON text: {error}") from None
    if not isinstance(parsed, dict):
        refuse("record", "an object", parsed)
    return parsed


def _values(parsed: dict[str, Any]) -> dict[str, Any]:
    if parsed.get("schema") != SCHEMA:
        refuse("schema", f"{SCHEMA}", parsed.get("schema"))
    for key in sorted(parsed.keys() - _READERS.keys() - {"schema"}):
        raise InstanceError(f"field {key}: unknown; {near_names(key, _READERS)}")
    parsed = {**_NOT_IN_OLD_RECORDS, **parsed}
    for key in _READERS.keys() - parsed.keys():
        raise InstanceError(f"field {key}: missing, and every record needs it")
    return {key: read(key, parsed[key]) for key, read in _READERS.items()}


_Reader = Callable[[str, Any], Any]


def _text(key: str, value: Any) -> str:
    if type(value) is not str or len(value) > MOST_TEXT_CHARACTERS:
        refuse(key, f"a text, of at most {MOST_TEXT_CHARACTERS} characters,", value)
    return value


def _truth(key: str, value: Any) -> bool:
    if type(value) is not bool:
        refuse(key, "true or false", value)
    return value


def _count(key: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= INT64_MAX:
        refuse(key, "a whole number of at least 0 that fits int64", value)
    return value


def _seconds(key: str, value: Any) -> float:
    # What JSON has as NaN or as infinite compares as neither.
    if type(value) not in (int, float) or not 0 <= value < float("inf"):
        refuse(key, "a number of seconds of at least 0", value)
    return float(value)


def _scalar(key: str, value: Any) -> Scalar:
    if type(value) is str:
        return _text(key, value)
    # NaN, as JSON may have it, is at most nothing.
    most = INT64_MAX if type(value) is int else sys.float_info.max
    if type(value) not in (int, float, bool) or not abs(value) <= most:
        refuse(key, "a text, a number, true or false", value)
    return value  # type: ignore[no-any-return]


def _moment(key: str, value: Any) -> str:
    try:
        datetime.fromisoformat(_text(key, value))
    except ValueError:
        refuse(key, "a date and time as ISO 8601 has them", value)
    return _text(key, value)


def _one_of(known: type[enum.StrEnum] | tuple[str, ...]) -> _Reader:
    names = [str(name) for name in known]

    def read(key: str, value: Any) -> Any:
        if value not in names:
            refuse(key, f"one of {', '.join(names)}", value)
        return value if isinstance(known, tuple) else known(value)

    return read


def _optional(read: _Reader) -> _Reader:
    return lambda key, value: None if value is None else read(key, value)


def _mapping(read: _Reader) -> _Reader:
    def read_all(key: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            refuse(key, "an object", value)
        return {name: read(f"{key}.{name}", each) for name, each in value.items()}

    return read_all


def _incumbents(key: str, value: Any) -> tuple[tuple[float, int], ...]:
    if not isinstance(value, list):
        refuse(key, "a list", value)
    for index, pair in enumerate(value):
        if not isinstance(pair, list) or len(pair) != 2:
            refuse(f"{key}[{index}]", "a pair of seconds and bytes", pair)
    return tuple(
        (_seconds(f"{key}[{index}]", seconds), _count(f"{key}[{index}]", peak))
        for index, (seconds, peak) in enumerate(value)
    )


_MACHINE: dict[str, _Reader] = {
    "processor": _text, "cores": _count, "memory_bytes": _count, "system": _text,
}  # fmt: skip


def _machine(key: str, value: Any) -> Machine:
    if not isinstance(value, dict) or value.keys() != _MACHINE.keys():
        refuse(key, f"an object of {', '.join(_MACHINE)}", value)
    return Machine(**{name: read(f"{key}.{name}", value[name]) for name, read in _MACHINE.items()})


_READERS: dict[str, _Reader] = {
    "study": _text,
    "run": _text,
    "asked": _text,
    "instance": _text,
    "instance_digest": _text,
    "tensors": _count,
    "planner": _text,
    "kind": _one_of(("offsets", "online", "training")),
    "seed": _count,
    "repetition": _count,
    "status": _one_of(RunStatus),
    "timed": _truth,
    "machine": _machine,
    "versions": _mapping(_text),
    "moment": _moment,
    "family": _optional(_text),
    "parameters": _mapping(_scalar),
    "budget_seconds": _optional(_seconds),
    "reason": _optional(_text),
    "peak": _optional(_count),
    "allocated": _optional(_count),
    "lower_bound": _optional(_count),
    "certificate": _optional(_text),
    "bounds": _mapping(_count),
    "processor_seconds": _optional(_seconds),
    "wall_seconds": _optional(_seconds),
    "peak_resident_bytes": _optional(_count),
    "incumbents": _incumbents,
    "statistics": _mapping(_scalar),
    "plugin": _mapping(_text),
    "commit": _optional(_text),
}
_NOT_IN_OLD_RECORDS: dict[str, Any] = {"plugin": {}}
