"""What a worker found, as it travels back: one line, whatever happened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from gpu_runtime.allocator.memory_report import KindReport, MemoryReport, MismatchRecord


@dataclass(frozen=True)
class PeakFigures:
    """Peaks of memory in bytes, as PyTorch tells them apart."""

    requested: int
    # The same, each request rounded up.
    allocated: int
    # Taken from the device.
    reserved: int

    @property
    def efficiency(self) -> float:
        """Allocated bytes a reserved byte."""
        return self.allocated / self.reserved if self.reserved else 0.0


@dataclass(frozen=True)
class CheckResult:
    """Everything that a run computed, in digests."""

    # Of every microbatch of every step, exact, as hexadecimal floats; of a NaN with its bits.
    losses: tuple[tuple[str, ...], ...]
    # Of every step after its last backward pass, by parameter.
    gradients: tuple[dict[str, str], ...]
    # At the end, by name.
    parameters: dict[str, str]
    buffers: dict[str, str]
    # Operators without a deterministic algorithm that ran.
    undetermined: tuple[str, ...] = ()
    # How the plan was kept to; none where nothing was planned.
    plan: MemoryReport | None = None


@dataclass(frozen=True)
class TimeResult:
    """What a run took."""

    step_seconds: tuple[float, ...]
    # Of the timed steps; none on a device without an allocator.
    peaks: PeakFigures | None = None
    # Peak of reserved bytes from the start of the process on.
    whole_run_reserved: int | None = None
    # What the driver says that the process took after its context was made, when all was timed.
    device_bytes: int | None = None
    # How it was kept to in the timed steps; none where nothing was planned.
    plan: MemoryReport | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Why a run found nothing."""

    message: str
    # Whether every other worker would fail alike, such as for want of a device.
    is_general: bool = False
    # The operator without a deterministic algorithm that ended a strict check; or none.
    undetermined: str = ""


WorkerResult = CheckResult | TimeResult | Failure

_KINDS: dict[str, type[CheckResult] | type[TimeResult] | type[Failure]] = {
    "check": CheckResult,
    "time": TimeResult,
    "failure": Failure,
}


def write_result(result: WorkerResult) -> str:
    """Return a result as one line of JSON without a line feed."""
    kind = next(kind for kind, its in _KINDS.items() if type(result) is its)
    return json.dumps({"kind": kind, **asdict(result)})


def read_result(line: str) -> WorkerResult:
    """Read what :func:`write_result` wrote; what is something else is a ValueError."""
    fields: Any = json.loads(line)
    if not isinstance(fields, dict) or fields.get("kind") not in _KINDS:
        raise ValueError("not a result")
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
    kinds = tuple(KindReport(**kind) for kind in fields["kinds"])
    # Workers do not check.
    return MemoryReport(**{**fields, "kinds": kinds, "mismatches": mismatches, "overwrites": ()})
