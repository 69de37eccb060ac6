"""Recorded iterations as problems, longer ones made of them, and runs of `homosize` on either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from evaluation.benchmarks.contestants.planning_calls import Source, judged_planner_call
from evaluation.benchmarks.measuring.isolated_measurement import run_isolated
from evaluation.benchmarks.published.homosize_figures import LARGEST_PUBLISHED
from evaluation.benchmarks.writing.figure import greedy_peak
from evaluation.benchmarks.writing.page import seconds
from instances.catalogue.instance_name import file_label
from instances.formats.recorded_trace import read_recorded_trace_file
from instances.synthetic import training_trace
from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.iterations import iteration_window, resolve_iteration
from instances.traces.repeated_steps import repeat_steps
from instances.traces.trace_problem import iteration_problem
from planners import Problem, Result, Status, bounds_of, read_any
from planners.dynamic.static_part import static_part
from planners.errors import GaplessError
from planners.model.plan import Parameters

TRACE_SUFFIX = ".npz"
WHOLE, STATIC_PART = "all", "static part"

BEST: Parameters = {}
PAPER: Parameters = {"variant": "paper"}
OURS = "homosize"
VARIANTS: dict[str, Parameters] = {
    OURS: BEST,
    "paper": PAPER,
    "no fusion": {"variant": "paper", "fusion": False},
    "no phases": {"variant": "paper", "phases": False},
}

# The most requests to which planning is to be quick and small.
MANY_COUNT = 1_000_000
SYNTHETIC = (100_000, MANY_COUNT)


@dataclass(frozen=True)
class RecordedCase:
    """One problem of the page."""

    name: str
    # :data:`WHOLE` or :data:`STATIC_PART`.
    part: str
    # Whether persistent blocks are planned.
    persistent: bool
    source: Source
    requests: int
    # The best.
    bound: int
    greedy_peak: int
    # Whether none of the run's requests varies in size.
    dense: bool

    @property
    def is_static(self) -> bool:
        """Whether no request of the problem varies in size."""
        return self.dense or self.part == STATIC_PART


@dataclass(frozen=True)
class VariantRuns:
    """What one variant answered on one problem, run after run, each in a fresh process."""

    results: Sequence[Result]
    added_bytes: Sequence[int]

    @property
    def peak(self) -> int | None:
        """Highest peak; None where the variant does not take the problem."""
        peaks = [result.peak for result in self.results if result.peak is not None]
        return max(peaks) if len(peaks) == len(self.results) else None

    @property
    def worst_seconds(self) -> float:
        """Largest processor seconds of the planning call."""
        return max(result.cpu_seconds for result in self.results)

    def took(self) -> str:
        """Return the median of the processor seconds and, in brackets, the worst."""
        middle = median(result.cpu_seconds for result in self.results)
        return f"{seconds(middle)} ({seconds(self.worst_seconds)})"

    def efficiency(self, bound: int) -> float | None:
        """Return the lower bound over the highest peak."""
        return None if self.peak is None else bound / self.peak if self.peak else 1.0


def cases_of(path: Path) -> list[RecordedCase]:
    """Return the problems that a file stands for.

    Of a trace its last iteration, with persistent blocks and without; where sizes vary, also the
    static part of either.
    """
    if path.suffix != TRACE_SUFFIX:
        problem = read_any(path)
        return [_case(_stem(path), WHOLE, True, partial(read_any, path), problem, dense=True)]
    cases = []
    for persistent in (True, False):
        problem = last_iteration(path, persistent, static=False)
        dense = problem.dynamic is None or not problem.dynamic.any()
        for static in (False,) if dense else (False, True):
            source = partial(last_iteration, path, persistent, static=static)
            part = STATIC_PART if static else WHOLE
            cases.append(_case(_stem(path), part, persistent, source, source(), dense=dense))
    return cases


def _case(
    name: str, part: str, persistent: bool, source: Source, problem: Problem, *, dense: bool
) -> RecordedCase:
    bound = max(known.bytes for known in bounds_of(problem))
    return RecordedCase(
        name, part, persistent, source, problem.tensor_count, bound, greedy_peak(problem), dense
    )


def _stem(path: Path) -> str:
    return file_label(path).removesuffix(TRACE_SUFFIX)


def last_iteration(path: Path, persistent: bool, *, static: bool) -> Problem:
    """Return the last iteration of a trace, or the static part of it."""
    problem = iteration_problem(read_recorded_trace_file(path), persistent=persistent)
    return static_part(problem).problem if static else problem


def longer_iteration(path: Path, microbatches: int) -> Problem:
    """Return the last iteration of a trace, its last microbatch so many times in a row."""
    trace = read_recorded_trace_file(path)
    begin, end = last_microbatch(trace)
    return repeat_steps(iteration_problem(trace), begin, end, microbatches)


def last_microbatch(trace: AllocationTrace) -> tuple[int, int]:
    """Return the half-open steps of the last microbatch, up to the optimizer, in its iteration."""
    first, _ = iteration_window(trace, -1)
    last = trace.mark_iteration == resolve_iteration(trace, -1)
    event, phase = trace.mark_event[last] - first, trace.mark_phase[last]
    forward = event[phase == Phase.FORWARD]
    optimizer = event[phase == Phase.OPTIMIZER]
    if not len(forward) or not len(optimizer) or forward[-1] >= optimizer[-1]:
        raise GaplessError(
            f"{trace.name}: a forward pass before an optimizer is needed, found phases "
            f"{phase.tolist()}"
        )
    return int(forward[-1]), int(optimizer[-1])


def family_of(files: Sequence[Path]) -> list[tuple[str, Source]]:
    """Return the problems on which growth is measured; the largest trace is made longer."""
    family: list[tuple[str, Source]] = []
    traces = [path for path in files if path.suffix == TRACE_SUFFIX]
    if traces:
        largest = max(
            traces, key=lambda path: last_iteration(path, True, static=False).tensor_count
        )
        for microbatches in microbatches_for((0, LARGEST_PUBLISHED, MANY_COUNT), largest):
            family.append(
                (f"{largest.stem}, {microbatches} x its last microbatch",
                 partial(longer_iteration, largest, microbatches))
            )  # fmt: skip
    family += [(f"synthetic, {count:,}", partial(training_trace, count)) for count in SYNTHETIC]
    return family


def microbatches_for(counts: Sequence[int], path: Path) -> list[int]:
    """Return how often the last microbatch has to come for at least so many requests."""
    once = longer_iteration(path, 1).tensor_count
    more = longer_iteration(path, 2).tensor_count - once
    return [1 + max(0, -(-(count - once) // more)) for count in counts]


def run_variant(source: Source, parameters: Parameters, repetitions: int) -> VariantRuns:
    """Run one variant in one fresh process after the other."""
    runs = [
        run_isolated(judged_planner_call(source, "homosize", parameters=parameters))
        for _ in range(repetitions)
    ]
    for run in runs:
        if run.answer.status is Status.INVALID:
            raise GaplessError(f"homosize {dict(parameters)}: {run.answer.reason}")
    return VariantRuns([run.answer for run in runs], [run.added_bytes for run in runs])
