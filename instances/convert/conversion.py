"""A conversion: read a file, select a part of it, plan that part if asked, and write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from instances.convert.targets import Target, find_target
from instances.formats.dsa_solution import SOLUTION_SUFFIX, read_dsa_solution
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
from planners.files.output_file import require_targets
from planners.files.plan_file import read_plan
from planners.files.recording_slice import RecordingSlice, parse_iteration
from planners.files.replayed_pipe import readable_twice
from planners.judged_run import solved
from planners.model.budget import Budget
from planners.model.plan import Plan, Result, feasible
from planners.model.problem import Problem
from planners.processes import standard_output
from planners.registry import choose_one

TRACE_READERS: dict[str, Callable[[Path], AllocationTrace]] = {
    RECORDED_TRACE.name: read_recorded_trace_file,
    PYTORCH_SNAPSHOT.name: read_pytorch_snapshot_trace,
    STALLOC_TEXT.name: read_stalloc_trace,
}

# Readers of formats whose files may hold a plan beside the problem.
PLAN_READERS: dict[str, Callable[[Path], tuple[Problem, Plan | None]]] = {
    MINIMALLOC_CSV.name: read_minimalloc_plan,
    TFLITE_MODEL.name: lambda path: ((model := read_tflite_model(path)).problem, model.plan),
    XLA_ASSIGNMENT.name: read_xla_plan,
}


@dataclass(frozen=True)
class Selection:
    """The part of a trace that becomes a problem."""

    # As for :func:`~planners.files.recording_slice.parse_iteration`; None takes the last iteration,
    # or everything if the trace marks no iterations.
    iteration: str | None = None
    # True keeps blocks that live before an iteration and after it.
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
    """Read a file of any known format as a trace if the format has one, else as a problem."""
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
    return Source(path, problem=form.read(path))


def select_problem(source: Source, selection: Selection) -> Problem:
    """Return the problem that a file holds, or the chosen part of its trace."""
    if source.trace is None:
        assert source.problem is not None
        if selection != Selection():
            raise InstanceError(
                "--iteration, --no-persistent and --round-to select from a trace, found a problem"
            )
        return source.problem
    wanted = selection.iteration or ("last" if source.trace.iteration_count else "all")
    recording_slice = RecordingSlice(
        parse_iteration(wanted), persistent=selection.persistent, round_to=selection.round_to
    )
    return slice_problem(source.trace, recording_slice)


@dataclass(frozen=True)
class Conversion:
    """The options of one conversion."""

    source: Path
    output: Path
    # Name of the format to write; None takes it from the suffix.
    target: str | None = None
    # Plan file, made for the very problem that is selected.
    plan: Path | None = None
    # Planner that plans, with its parameters, as ``planners.compare`` takes it.
    planner: str | None = None
    time_limit_seconds: float | None = None
    selection: Selection = field(default_factory=Selection)
    # Of a memory snapshot; None takes the only one in use.
    device: int | None = None
    # Sizes of the dimensions that the file leaves open.
    dimensions: Dimensions = field(default_factory=dict)
    # Every tensor starts at a multiple of this and of its own alignment.
    align: int = 1

    @property
    def is_planned(self) -> bool:
        """True if a plan is asked for."""
        return self.plan is not None or self.planner is not None


def convert(conversion: Conversion) -> str:
    """Read, plan if asked, and write."""
    target = find_target(conversion.output, conversion.target, planned=conversion.is_planned)
    where = f"{conversion.source} to {conversion.output}"
    with errors_at(where):
        _require_sense(conversion, target)
    require_targets({"--output": conversion.output}, [conversion.source, conversion.plan])
    source = read_source(conversion.source, conversion.device, conversion.dimensions)
    with errors_at(where):
        said = (
            _convert_trace(target.write_trace, conversion, target, source)
            if target.write_trace is not None
            else _convert_problem(conversion, target, source)
        )
    return f"{conversion.output}: {target.name}, {said}"


def _require_sense(conversion: Conversion, target: Target) -> None:
    if conversion.plan is not None and conversion.planner is not None:
        raise InstanceError("--plan and --planner: one of the two is needed, found both")
    if conversion.is_planned and not target.holds_plans:
        raise InstanceError(f"{target.name} holds no plan: leave out --plan and --planner")
    if conversion.align < 1 or conversion.align & (conversion.align - 1):
        raise InstanceError(f"--align: a power of two is needed, found {conversion.align}")
    if target.write_trace is not None and conversion.align != 1:
        raise InstanceError(f"{target.name} holds whole traces: leave out --align")
    if target.write_trace is not None and conversion.selection != Selection():
        raise InstanceError(
            f"{target.name} holds whole traces: leave out --iteration, --no-persistent and "
            "--round-to"
        )
    if target.name == "npz" and conversion.output.suffix != ".npz":
        raise InstanceError("a name that ends in .npz is needed for npz")


def _convert_trace(
    write: Callable[[AllocationTrace, Path], None],
    conversion: Conversion,
    target: Target,
    source: Source,
) -> str:
    if source.trace is None:
        raise InstanceError(
            f"{target.name} holds a trace of requests, found a problem, which has lost them"
        )
    write(source.trace, conversion.output)
    return f"{source.trace.request_count} requests"


def _convert_problem(conversion: Conversion, target: Target, source: Source) -> str:
    problem = _aligned(select_problem(source, conversion.selection), conversion.align)
    target.require_holdable(problem)
    if target.holds_plans:
        result = _result_of(conversion, problem, source)
        if result is not None:
            if target.write_into is not None:
                target.write_into(source.path, problem, result, conversion.output)
            elif target.write_plan is not None:
                target.write_plan(problem, result, conversion.output)
            return f"{problem.tensor_count} tensors, planned in {result.peak} bytes"
    if target.write_problem is None:
        raise InstanceError(f"{target.name} shows a plan: give --plan or --planner")
    target.write_problem(problem, conversion.output)
    return f"{problem.tensor_count} tensors"


def _aligned(problem: Problem, align: int) -> Problem:
    if align == 1:
        return problem
    alignment = np.maximum(problem.alignment, align)
    return problem.select(range(problem.tensor_count), alignment=alignment)


def _result_of(conversion: Conversion, problem: Problem, source: Source) -> Result | None:
    if conversion.plan is not None and conversion.plan.name.endswith(SOLUTION_SUFFIX):
        return feasible(read_dsa_solution(source.path, problem, conversion.plan))
    if conversion.plan is not None:
        return read_plan(problem, conversion.plan)
    if conversion.planner is not None:
        planner = choose_one(conversion.planner)
        budget = Budget(time_limit_seconds=conversion.time_limit_seconds)
        with standard_output.kept_for_the_answer():
            return solved(problem, planner, budget)
    return None if source.plan is None else feasible(source.plan)
