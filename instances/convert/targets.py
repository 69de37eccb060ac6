"""The formats that can be written: names, suffixes and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from instances.formats.c_header import write_c_header
from instances.formats.dsa_solution import SOLUTION_SUFFIX, write_dsa_solution
from instances.formats.dsa_target import require_dsa_holds, write_dsa_problem
from instances.formats.minimalloc_csv import require_csv_holds, write_minimalloc_csv
from instances.formats.perfetto_trace import write_perfetto_trace
from instances.formats.plan_target import planned, require_lifetimes, require_valid_plan
from instances.formats.pytorch_snapshot import write_planned_snapshot
from instances.formats.recorded_trace import write_recorded_trace
from instances.formats.stalloc_text import write_stalloc_text
from instances.formats.tflite_model import write_offline_allocation
from instances.traces.allocation_trace import AllocationTrace
from planners.errors import InstanceError, near_names
from planners.files.plan_file import write_plan
from planners.files.problem_file import write_problem
from planners.model.plan import Result
from planners.model.problem import Problem


@dataclass(frozen=True)
class Target:
    """A format that can be written."""

    name: str
    suffixes: tuple[str, ...]
    # Each is None if the format does not hold such a thing; a problem is written without a plan.
    write_trace: Callable[[AllocationTrace, Path], None] | None = None
    write_problem: Callable[[Problem, Path], None] | None = None
    write_plan: Callable[[Problem, Result, Path], None] | None = None
    # Writes a copy of the source with a plan in it.
    write_into: Callable[[Path, Problem, Result, Path], None] | None = None
    # Raises ``InstanceError`` for a problem that the format cannot hold.
    require_holdable: Callable[[Problem], None] = lambda _problem: None

    @property
    def holds_plans(self) -> bool:
        """True if a plan can be written."""
        return self.write_plan is not None or self.write_into is not None


def _write_plan_file(problem: Problem, result: Result, path: Path) -> None:
    require_valid_plan(problem, planned(result))
    write_plan(problem, result, path, with_tensors=True)


TARGETS = (
    Target("gapless-json", (".json", ".json.gz"), write_problem=write_problem),
    Target(
        "minimalloc-csv",
        (".csv",),
        write_problem=write_minimalloc_csv,
        write_plan=lambda problem, result, path: write_minimalloc_csv(
            problem, path, planned(result)
        ),
        require_holdable=require_csv_holds,
    ),
    Target(
        "snapshot",
        (".pickle", ".pkl"),
        write_plan=lambda problem, result, path: write_planned_snapshot(
            problem, planned(result), path
        ),
        require_holdable=partial(require_lifetimes, target="a memory snapshot"),
    ),
    Target(
        "perfetto",
        (".perfetto.json",),
        write_plan=lambda problem, result, path: write_perfetto_trace(
            problem, planned(result), path
        ),
        require_holdable=partial(require_lifetimes, target="a Perfetto trace"),
    ),
    Target("plan", (".json", ".json.gz"), write_plan=_write_plan_file),
    Target("c-header", (".h",), write_plan=write_c_header),
    Target("tflite", (".tflite",), write_into=write_offline_allocation),
    Target(
        "dsa-problem",
        (".dsa.json", ".dsa.json.gz"),
        write_problem=write_dsa_problem,
        require_holdable=require_dsa_holds,
    ),
    Target("dsa-solution", (SOLUTION_SUFFIX,), write_into=write_dsa_solution),
    Target("npz", (".npz",), write_trace=write_recorded_trace),
    Target("stalloc", (".txt",), write_trace=write_stalloc_text),
)


def find_target(path: Path, name: str | None, *, planned: bool = False) -> Target:
    """Return the target that is named, or else the one that a file's name means.

    `planned` decides between a problem and a plan if both have the suffix.
    """
    if name is not None:
        for target in TARGETS:
            if target.name == name:
                return target
        hint = near_names(name, [target.name for target in TARGETS])
        raise InstanceError(f"--to: no such format, found {name!r:.40}; {hint}")
    fitting = [
        (len(suffix), (target.write_problem is None) == planned, target)
        for target in TARGETS
        for suffix in target.suffixes
        if path.name.lower().endswith(suffix)
    ]
    if not fitting:
        known = ", ".join(f"{target.name} ({' '.join(target.suffixes)})" for target in TARGETS)
        raise InstanceError(f"{path}: the suffix names no format; give --to, one of {known}")
    return max(fitting, key=lambda row: row[:2])[2]
