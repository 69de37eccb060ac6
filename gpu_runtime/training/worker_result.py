"""What a child process answers, as it travels back: one line, whatever happened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from gpu_runtime.allocator.memory_report import MemoryReport, MismatchRecord


@dataclass(frozen=True)
class PeakFigures:
    """Peaks of memory in bytes, as PyTorch tells them apart.

    Parameters
    ----------
    requested
        By the program.
    allocated
        The same, each request rounded up.
    reserved
        Taken from the device.
    """

    requested: int
    allocated: int
    reserved: int

    @property
    def efficiency(self) -> float:
        """Allocated bytes a reserved byte."""
        return self.allocated / self.reserved if self.reserved else 0.0


@dataclass(frozen=True)
class CheckResult:
    """Everything that a run computed, in digests.

    Parameters
    ----------
    losses
        Of every microbatch of every step, exact, as hexadecimal floats; of a NaN with its bits.
    gradients
        Of every step after its last backward pass, by parameter.
    parameters, buffers
        At the end, by name.
    undetermined
        Operators without a deterministic algorithm that ran.
    plan
        How the plan was kept to; none where nothing was planned.
    """

    losses: tuple[tuple[str, ...], ...]
    gradients: tuple[dict[str, str], ...]
    parameters: dict[str, str]
    buffers: dict[str, str]
    undetermined: tuple[str, ...] = ()
    plan: MemoryReport | None = None


@dataclass(frozen=True)
class TimeResult:
    """What a run took.

    Parameters
    ----------
    step_seconds
        Of every timed step.
    peaks
        Of the timed steps; none on a device without an allocator.
    whole_run_reserved
        Peak of reserved bytes from the start of the process on.
    device_bytes
        What the driver says that the process took after its context was made, when all was timed.
    plan
        How it was kept to in the timed steps; none where nothing was planned.
    environment
        Device and versions.
    """

    step_seconds: tuple[float, ...]
    peaks: PeakFigures | None = None
    whole_run_reserved: int | None = None
    device_bytes: int | None = None
    plan: MemoryReport | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Why there is no answer.

    Parameters
    ----------
    message
        One line.
    is_general
        Whether every other child would fail alike, such as for want of a device.
    undetermined
        The operator without a deterministic algorithm that ended a strict check; or none.
    """

    message: str
    is_general: bool = False
    undetermined: str = ""


Answer = CheckResult | TimeResult | Failure

_KINDS: dict[str, type[CheckResult] | type[TimeResult] | type[Failure]] = {
    "check": CheckResult,
    "time": TimeResult,
    "failure": Failure,
}


def write_result(answer: Answer) -> str:
    """Return an answer as one line of JSON.

    Parameters
    ----------
    answer
        Of a child.

    Returns
    -------
    str
        Without a line feed.
    """
    kind = next(kind for kind, its in _KINDS.items() if type(answer) is its)
    return json.dumps({"kind": kind, **asdict(answer)})


def read_result(line: str) -> Answer:
    """Read what :func:`write_result` wrote.

    Parameters
    ----------
    line
        One line.

    Returns
    -------
    CheckResult or TimeResult or Failure
        The same.

    Raises
    ------
    ValueError
        It is something else.
    """
    fields: Any = json.loads(line)
    if not isinstance(fields, dict) or fields.get("kind") not in _KINDS:
        raise ValueError("not an answer")
    kind = _KINDS[fields.pop("kind")]
    for name in ("step_seconds", "gradients", "undetermined"):
        if isinstance(fields.get(name), list):
            fields[name] = tuple(fields[name])
    if "losses" in fields:
        fields["losses"] = tuple(map(tuple, fields["losses"]))
    if fields.get("peaks") is not None:
        fields["peaks"] = PeakFigures(**fields["peaks"])
    if fields.get("plan") is not None:
        fields["plan"] = _read_report(fields["plan"])
    return kind(**fields)


def _read_report(fields: dict[str, Any]) -> MemoryReport:
    mismatches = tuple(MismatchRecord(**mismatch) for mismatch in fields["mismatches"])
    return MemoryReport(**{**fields, "mismatches": mismatches})
