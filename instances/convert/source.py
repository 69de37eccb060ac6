"""What is converted: a file of any known format, as a trace, a problem and perhaps a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from instances.formats.minimalloc_csv import MINIMALLOC_CSV, read_minimalloc_plan
from instances.formats.pytorch_snapshot import PYTORCH_SNAPSHOT, read_pytorch_snapshot_trace
from instances.formats.recorded_trace import RECORDED_TRACE, read_recorded_trace_file
from instances.formats.stalloc_text import STALLOC_TEXT, read_stalloc_trace
from instances.formats.tflite_model import TFLITE_MODEL, read_tflite_model
from instances.formats.xla_assignment import XLA_ASSIGNMENT, read_xla_plan
from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_problem import slice_problem
from planners.errors import InstanceError, errors_at
from planners.files.dimensions import Dimensions
from planners.files.formats import NO_DIMENSIONS, format_of, read_sized
from planners.files.recording_slice import RecordingSlice, parse_iteration
from planners.files.replayed_pipe import readable_twice
from planners.model.plan import Plan
from planners.model.problem import Problem

TRACE_READERS: dict[str, Callable[[Path], AllocationTrace]] = {
    RECORDED_TRACE.name: read_recorded_trace_file,
    PYTORCH_SNAPSHOT.name: read_pytorch_snapshot_trace,
    STALLOC_TEXT.name: read_stalloc_trace,
}

# Of formats whose files may hold a plan beside the problem.
PLAN_READERS: dict[str, Callable[[Path], tuple[Problem, Plan | None]]] = {
    MINIMALLOC_CSV.name: read_minimalloc_plan,
    XLA_ASSIGNMENT.name: read_xla_plan,
}


@dataclass(frozen=True)
class Selection:
    """Which part of a trace becomes a problem."""

    # As :func:`~planners.files.recording_slice.parse_iteration` takes it; None takes the last
    # iteration where the trace marks any, and everything where not.
    iteration: str | None = None
    # Whether blocks that are there before an iteration and after it are part of its problem.
    persistent: bool = True
    # Sizes are rounded up to multiples of this many bytes.
    round_to: int = 1


@dataclass(frozen=True)
class Source:
    """A file that has been read: a trace, or a problem with the plan in the file, if any."""

    path: Path
    trace: AllocationTrace | None = None
    problem: Problem | None = None
    plan: Plan | None = None


def read_source(
    path: Path, device: int | None = None, dimensions: Dimensions = NO_DIMENSIONS
) -> Source:
    """Read a file of any known format: a trace where it holds one, else a problem."""
    with readable_twice(path) as file:
        return replace(_read(file, device, dimensions), path=path)


def _read(path: Path, device: int | None, dimensions: Dimensions) -> Source:
    form = format_of(path)
    if dimensions:
        return Source(path, problem=read_sized(path, form, dimensions))
    if form.name == PYTORCH_SNAPSHOT.name:
        return Source(path, trace=read_pytorch_snapshot_trace(path, device))
    if device is not None:
        raise InstanceError(f"{path}: --device is for memory snapshots, found {form.name}")
    if form.name in TRACE_READERS:
        return Source(path, trace=TRACE_READERS[form.name](path))
    if form.name in PLAN_READERS:
        problem, plan = PLAN_READERS[form.name](path)
        return Source(path, problem=problem, plan=plan)
    if form.name == TFLITE_MODEL.name:
        model = read_tflite_model(path)
        return Source(path, problem=model.problem, plan=model.plan)
    return Source(path, problem=form.read(path))


def select_problem(source: Source, selection: Selection) -> Problem:
    """Return the problem that a file holds, or the chosen part of its trace."""
    if source.trace is None:
        assert source.problem is not None
        if selection != Selection():
            raise InstanceError(
                f"{source.path}: --iteration, --no-persistent and --round-to select from a trace, "
                "found a problem"
            )
        return source.problem
    with errors_at(source.path):
        return _part_of(source.trace, selection)


def _part_of(trace: AllocationTrace, selection: Selection) -> Problem:
    wanted = selection.iteration or ("last" if trace.iteration_count else "all")
    recording_slice = RecordingSlice(
        parse_iteration(wanted), persistent=selection.persistent, round_to=selection.round_to
    )
    return slice_problem(trace, recording_slice)
