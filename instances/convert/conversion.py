"""A conversion: what is read, which part and which plan of it, and what is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from instances.convert.source import Selection, Source, read_source, select_problem
from instances.convert.targets import Target, find_target
from instances.traces.allocation_trace import AllocationTrace
from planners.command_line import standard_output
from planners.errors import InstanceError
from planners.files.dimensions import Dimensions
from planners.files.output_file import require_targets
from planners.files.plan_file import read_plan
from planners.judged_run import solved
from planners.model.budget import Budget
from planners.model.plan import Result, feasible
from planners.model.problem import Problem
from planners.registry import choose_one


@dataclass(frozen=True)
class Conversion:
    """What was asked for."""

    source: Path
    output: Path
    # Name of the format to write; None goes by the suffix.
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
    # Every tensor starts at a multiple of this, and of what it needs itself.
    align: int = 1

    @property
    def is_planned(self) -> bool:
        """Whether a plan is asked for."""
        return self.plan is not None or self.planner is not None


def convert(conversion: Conversion) -> str:
    """Read, plan where that is asked for, and write."""
    target = find_target(conversion.output, conversion.target, planned=conversion.is_planned)
    _require_sense(conversion, target)
    require_targets({"--output": conversion.output}, [conversion.source, conversion.plan])
    source = read_source(conversion.source, conversion.device, conversion.dimensions)
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
        raise InstanceError(f"{conversion.output}: a name that ends in .npz is needed for npz")


def _convert_trace(
    write: Callable[[AllocationTrace, Path], None],
    conversion: Conversion,
    target: Target,
    source: Source,
) -> str:
    if source.trace is None:
        raise InstanceError(
            f"{source.path}: {target.name} holds a trace of requests, found a problem, which has "
            "lost them"
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
    if conversion.plan is not None:
        return read_plan(problem, conversion.plan)
    if conversion.planner is not None:
        planner = choose_one(conversion.planner)
        budget = Budget(time_limit_seconds=conversion.time_limit_seconds)
        with standard_output.kept_for_the_answer():
            return solved(problem, planner, budget)
    return None if source.plan is None else feasible(source.plan)
