"""MiniMalloc CSV written: a problem of lifetimes, and a plan for it as the column ``offset``."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from instances.formats.judged_plan import require_valid_plan
from instances.formats.target_file import refuse_target
from planners.files.output_file import write_output
from planners.model.blocks import NOT_PINNED
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.text.csv_cell import csv_cell

TARGET = "MiniMalloc CSV"


def write_minimalloc_csv(problem: Problem, path: Path, plan: Plan | None = None) -> None:
    """Write a problem, and a plan for it, as MiniMalloc CSV.

    The columns are ``id,lower,upper,size``, then ``alignment`` and ``gaps`` where the problem has
    them, then ``offset``. Ids are the tensors' names where those are unique and free of commas and
    quotes, which MiniMalloc does not know, else their numbers; see ``csv_cell``. The capacity,
    which MiniMalloc takes from its command line, phases, modules and origin are not written.
    """
    require_csv_holds(problem)
    if plan is not None:
        require_valid_plan(problem, plan)
    columns = {
        "id": _ids(problem),
        "lower": problem.start.tolist(),
        "upper": problem.end.tolist(),
        "size": problem.size.tolist(),
    }
    if (problem.alignment != 1).any():
        columns["alignment"] = problem.alignment.tolist()
    if len(problem.gaps):
        columns["gaps"] = _gap_cells(problem)
    if plan is not None:
        columns["offset"] = plan.offsets.tolist()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_output(path, text.getvalue().encode())


def require_csv_holds(problem: Problem) -> None:
    """Refuse a problem that MiniMalloc CSV cannot hold; raises ``InstanceError``."""
    if not problem.tensor_count:
        refuse_target(TARGET, "at least one tensor, below its header", "none")
    if problem.safety is Safety.GRAPH:
        refuse_target(
            TARGET,
            "lifetimes that decide which tensors may share bytes",
            f"a graph with {problem.stream_count} streams, in which lifetimes alone are wrong",
        )
    if problem.safety is Safety.PAIRS:
        refuse_target(
            TARGET,
            "lifetimes that decide which tensors may share bytes",
            "explicit unsafe pairs",
        )
    if problem.contiguous:
        refuse_target(
            TARGET, "tensors without order in memory", f"{len(problem.contiguous)} chains"
        )
    pins = int((problem.pinned != NOT_PINNED).sum())
    if pins:
        refuse_target(TARGET, "tensors that may lie anywhere", f"{pins} pinned")
    for tensor, first, _ in problem.gaps[problem.gaps[:, 1] < 0][:1].tolist():
        refuse_target(
            TARGET, "gaps from step 0 on", f"one of {problem.describe(tensor)} from step {first}"
        )


def _ids(problem: Problem) -> list[str]:
    names = [csv_cell(name) for name in problem.tensor_name or ()]
    if names and len(set(names)) == len(names) and not set('",') & set("".join(names)):
        return names
    return [str(tensor) for tensor in range(problem.tensor_count)]


def _gap_cells(problem: Problem) -> list[str]:
    cells: list[list[str]] = [[] for _ in range(problem.tensor_count)]
    order = np.lexsort((problem.gaps[:, 1], problem.gaps[:, 0]))
    for tensor, first, after in problem.gaps[order].tolist():
        cells[tensor].append(f"{first}-{after}")
    return [" ".join(gaps) for gaps in cells]
