"""What a process found, as it travels back: one line, whatever happened."""

from __future__ import annotations

import msgspec

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.stream_times import StreamTimes


class PeakFigures(msgspec.Struct, frozen=True):
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


class DeviceCounts(msgspec.Struct, frozen=True):
    """What an allocator asked of the device."""

    # Calls that take or give back memory, or map it.
    calls: int
    # Calls in which the host waits for the device.
    host_waits: int


class RunResult(msgspec.Struct, frozen=True, kw_only=True, tag="result"):
    """What a run took, and in a check digests of everything that it computed."""

    # By turn, from the end of a step to the end of the next.
    step_seconds: tuple[tuple[float, ...], ...] = ()
    # Of the turns; none on a device without an allocator.
    peaks: PeakFigures | None = None
    # Peak of reserved bytes from the start of the process on.
    whole_run_reserved: int | None = None
    # What the driver says that the process took after its context was made, when all was timed;
    # none where other processes took memory meanwhile.
    device_bytes: int | None = None
    # Of the turns; none where nobody counts them.
    counts: DeviceCounts | None = None
    # How the plan was kept to since the warm-up; none where nothing was planned.
    plan: MemoryReport | None = None
    # Of every microbatch of every step, exact, as hexadecimal floats; of a NaN with its bits.
    losses: tuple[tuple[str, ...], ...] = ()
    # Of every step of a program that tells them, after its last backward pass, by parameter.
    gradients: tuple[dict[str, str], ...] = ()
    # At the end, by name.
    parameters: dict[str, str] = {}
    buffers: dict[str, str] = {}
    # Operators without a deterministic algorithm that ran.
    undetermined: tuple[str, ...] = ()
    # Of the first rank, the busiest first; empty where nothing was profiled.
    streams: tuple[StreamTimes, ...] = ()
    environment: dict[str, str] = {}

    @property
    def every_step(self) -> tuple[float, ...]:
        """Seconds of all timed steps."""
        return tuple(seconds for turn in self.step_seconds for seconds in turn)

    @property
    def fallback_share(self) -> float | None:
        """Share of a plan's requests that a fallback served; all, where no step had a plan."""
        if self.plan is None:
            return None
        served = self.plan.planned_requests + self.plan.escaping_requests
        asked = served + self.plan.fallback_requests
        return self.plan.fallback_requests / asked if asked and self.plan.planned_steps else 1.0


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """Why a run found nothing."""

    message: str
    # Whether every other worker would fail alike, such as for want of a device.
    is_general: bool = False
    # The operator without a deterministic algorithm that ended a strict check; or none.
    undetermined: str = ""


Answer = RunResult | Failure

_DECODER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(RunResult | Failure)


def write_answer(answer: Answer) -> str:
    """Return an answer as one line of JSON without a line feed."""
    return msgspec.json.encode(answer).decode()


def read_answer(line: str) -> Answer:
    """Read what :func:`write_answer` wrote; what is something else is a ValueError."""
    return _DECODER.decode(line)


def of_all_ranks(answers: list[Answer]) -> Answer:
    """Return what holds of a program of several processes: the worst of them, all their bits."""
    results = [answer for answer in answers if isinstance(answer, RunResult)]
    if len(results) < len(answers):
        return next(answer for answer in answers if isinstance(answer, Failure))
    if len(results) == 1:
        return results[0]
    first = results[0]
    by_reserved = [result for result in results if result.peaks is not None]
    planned = [result for result in results if result.plan is not None]
    counted = [result.counts for result in results if result.counts is not None]
    return msgspec.structs.replace(
        first,
        step_seconds=tuple(
            tuple(map(max, zip(*turns, strict=True)))
            for turns in zip(*(result.step_seconds for result in results), strict=True)
        ),
        peaks=max((its.peaks for its in by_reserved if its.peaks),
                  key=lambda peaks: peaks.reserved, default=None),
        whole_run_reserved=_largest([result.whole_run_reserved for result in results]),
        device_bytes=_largest([result.device_bytes for result in results]),
        counts=max(counted, key=lambda counts: (counts.host_waits, counts.calls), default=None),
        plan=max(planned, key=lambda its: its.fallback_share or 0.0).plan if planned else None,
        losses=tuple(tuple(loss for its in steps for loss in its)
                     for steps in zip(*(result.losses for result in results), strict=True)),
        gradients=tuple(_by_rank(list(steps))
                        for steps in zip(*(its.gradients for its in results), strict=True)),
        parameters=_by_rank([result.parameters for result in results]),
        buffers=_by_rank([result.buffers for result in results]),
        undetermined=tuple(sorted({name for its in results for name in its.undetermined})),
    )  # fmt: skip


def _largest(sizes: list[int | None]) -> int | None:
    return max((size for size in sizes if size is not None), default=None)


def _by_rank(named: list[dict[str, str]]) -> dict[str, str]:
    return {
        f"{name} of rank {rank}": digest
        for rank, digests in enumerate(named)
        for name, digest in digests.items()
    }
