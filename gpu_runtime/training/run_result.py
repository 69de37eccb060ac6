"""The result of one training process, which travels to the parent as one line."""

from __future__ import annotations

import msgspec

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.stream_times import StreamTimes


class PeakFigures(msgspec.Struct, frozen=True):
    """Peaks of memory in bytes, as PyTorch tells them apart."""

    requested: int
    # The requested bytes, each request rounded up by the allocator.
    allocated: int
    # Taken from the device.
    reserved: int

    @property
    def efficiency(self) -> float:
        """Allocated bytes per reserved byte."""
        return self.allocated / self.reserved if self.reserved else 0.0


class DeviceCounts(msgspec.Struct, frozen=True):
    """Numbers of an allocator's device calls."""

    # Calls that allocate, free or map memory.
    calls: int
    # Calls in which the host waits for the device.
    host_waits: int


class RunResult(msgspec.Struct, frozen=True, kw_only=True, tag="result"):
    """Times and memory of a run; of a check the digests of everything that it computed."""

    # Seconds of each timed step, by turn, from the end of the step before it to its own end.
    step_seconds: tuple[tuple[float, ...], ...] = ()
    # Peaks within the turns; None on a device without an allocator.
    peaks: PeakFigures | None = None
    # Peak of reserved bytes since the start of the process.
    whole_run_reserved: int | None = None
    # Bytes that the driver reports as taken since the context was made; None if other processes
    # took memory at the same time.
    device_bytes: int | None = None
    # Device calls within the turns; None if the allocator does not count them.
    counts: DeviceCounts | None = None
    # Seconds in the allocator, and requests and frees, in the first step of each turn; empty if
    # the device has none that PyTorch calls.
    allocator_seconds: tuple[float, ...] = ()
    allocator_events: tuple[int, ...] = ()
    # The report on planned memory: of steps after the warm-up, or of all steps of a check. None
    # without planned memory.
    plan: MemoryReport | None = None
    # What an online allocator planned, or why it did not.
    note: str = ""
    # Losses of every microbatch, by step, as hexadecimal floats; a NaN is followed by its bits.
    losses: tuple[tuple[str, ...], ...] = ()
    # Digests of the gradients after the last backward pass, by step and parameter.
    gradients: tuple[dict[str, str], ...] = ()
    # Digests at the end, by name.
    parameters: dict[str, str] = {}
    buffers: dict[str, str] = {}
    # Operators without a deterministic algorithm that ran.
    undetermined: tuple[str, ...] = ()
    # Streams of the first rank, the busiest first; empty without profiled steps.
    streams: tuple[StreamTimes, ...] = ()
    environment: dict[str, str] = {}
    # The result of each rank, if there are several and this is that of all.
    by_rank: tuple[RunResult, ...] = ()

    @property
    def every_step(self) -> tuple[float, ...]:
        """Seconds of all timed steps."""
        return tuple(seconds for turn in self.step_seconds for seconds in turn)

    @property
    def fallback_share(self) -> float | None:
        """Share of the requests of planned steps that the heap served; 1 if no step had a plan."""
        if self.plan is None:
            return None
        served = self.plan.planned_requests + self.plan.escaping_requests
        asked = served + self.plan.unexpected_requests
        return self.plan.unexpected_requests / asked if asked and self.plan.planned_steps else 1.0


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    message: str
    # True if every other worker would fail alike, for example because there is no device.
    is_general: bool = False
    # The operator without a deterministic algorithm that ended a strict check; else empty.
    undetermined: str = ""


Answer = RunResult | Failure

_DECODER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(RunResult | Failure)


def write_answer(answer: Answer) -> str:
    return msgspec.json.encode(answer).decode()


def read_answer(line: str) -> Answer:
    """Read a line of :func:`write_answer`; any other line raises ValueError."""
    return _DECODER.decode(line)


def of_all_ranks(answers: list[Answer]) -> Answer:
    """Combine the answers of all processes of a program: the worst figures, and all digests.

    The results of the processes stay beside it.

    If a process failed, its failure is the answer.
    """
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
        allocator_seconds=tuple(
            map(max, zip(*(its.allocator_seconds for its in results), strict=True))
        ),
        plan=max(planned, key=lambda its: (its.fallback_share or 0.0,
                                           its.peaks.reserved if its.peaks else 0)).plan
        if planned else None,
        losses=tuple(tuple(loss for its in steps for loss in its)
                     for steps in zip(*(result.losses for result in results), strict=True)),
        gradients=tuple(_by_rank(list(steps))
                        for steps in zip(*(its.gradients for its in results), strict=True)),
        parameters=_by_rank([result.parameters for result in results]),
        buffers=_by_rank([result.buffers for result in results]),
        undetermined=tuple(sorted({name for its in results for name in its.undetermined})),
        by_rank=tuple(results),
    )  # fmt: skip


def _largest(sizes: list[int | None]) -> int | None:
    return max((size for size in sizes if size is not None), default=None)


def _by_rank(named: list[dict[str, str]]) -> dict[str, str]:
    return {
        f"{name} of rank {rank}": digest
        for rank, digests in enumerate(named)
        for name, digest in digests.items()
    }
