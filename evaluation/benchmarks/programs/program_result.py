"""What one process found out about a program, as it travels back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from evaluation.benchmarks.programs.stream_times import StreamTimes
from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.worker_result import Failure, PeakFigures

# The line of a process that waits for its turn; any line lets it go on.
WAITS_FOR_ITS_TURN = "waits"


@dataclass(frozen=True)
class ProgramResult:
    """Time and memory of the timed steps, and digests of what a check computed."""

    # By turn, from the end of a step to the end of the next.
    step_seconds: tuple[tuple[float, ...], ...]
    # None on a device without an allocator.
    peaks: PeakFigures | None = None
    # Requests of steps that the plan did not serve; none where nothing is planned.
    fallback_share: float | None = None
    # Of every step from the first on, exact, as hexadecimal floats; empty where time is taken.
    losses: tuple[str, ...] = ()
    # SHA-256 of all parameters at the end; empty where time is taken.
    parameters: str = ""
    # Operators without a deterministic algorithm that ran in a check.
    undetermined: tuple[str, ...] = ()
    # Of the first rank, the busiest first; empty where nothing was profiled.
    streams: tuple[StreamTimes, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def bits(self) -> tuple[object, ...]:
        """Everything that has to be equal."""
        return self.losses, self.parameters


ProgramAnswer = ProgramResult | Failure


def fallback_share(report: MemoryReport | None) -> float | None:
    """Return the share of a plan's requests that a fallback served; all, where no step had one."""
    if report is None:
        return None
    served = report.planned_requests + report.escaping_requests
    asked = served + report.fallback_requests
    return report.fallback_requests / asked if asked and report.planned_steps else 1.0


def to_fields(answer: ProgramAnswer) -> dict[str, Any]:
    """Return an answer as scalars, lists and objects."""
    kind = "failure" if isinstance(answer, Failure) else "result"
    return {"kind": kind, **asdict(answer)}


def from_fields(fields: Any) -> ProgramAnswer:
    """Read what :func:`to_fields` returned; what is something else is a ValueError."""
    if not isinstance(fields, dict) or fields.get("kind") not in ("failure", "result"):
        raise ValueError("not an answer of a program")
    rest = {name: value for name, value in fields.items() if name != "kind"}
    if fields["kind"] == "failure":
        return Failure(**rest)
    for name in ("losses", "undetermined"):
        rest[name] = tuple(rest[name])
    rest["step_seconds"] = tuple(map(tuple, rest["step_seconds"]))
    rest["streams"] = tuple(StreamTimes(**fields) for fields in rest["streams"])
    if rest["peaks"] is not None:
        rest["peaks"] = PeakFigures(**rest["peaks"])
    return ProgramResult(**rest)


def read_answer(line: str) -> ProgramAnswer:
    """Read one line of JSON."""
    return from_fields(json.loads(line))


def of_all_ranks(answers: list[ProgramAnswer]) -> ProgramAnswer:
    """Return what holds of a program of several processes: the worst of them, all their bits."""
    results = [answer for answer in answers if isinstance(answer, ProgramResult)]
    if len(results) < len(answers):
        return next(answer for answer in answers if isinstance(answer, Failure))
    peaks = [result.peaks for result in results if result.peaks]
    shares = [share for result in results if (share := result.fallback_share) is not None]
    return ProgramResult(
        step_seconds=tuple(
            tuple(map(max, zip(*turns, strict=True)))
            for turns in zip(*(result.step_seconds for result in results), strict=True)
        ),
        peaks=max(peaks, key=lambda figures: figures.reserved, default=None),
        fallback_share=max(shares, default=None),
        losses=tuple(loss for result in results for loss in result.losses),
        parameters=" ".join(result.parameters for result in results),
        undetermined=tuple(sorted({name for result in results for name in result.undetermined})),
        streams=results[0].streams,
        environment=results[0].environment,
    )
