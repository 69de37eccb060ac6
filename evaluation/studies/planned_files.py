"""A planner that times the command line on a file: from its bytes to a plan that was judged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from instances.formats.minimalloc_csv import write_minimalloc_csv
from planners.errors import GaplessError
from planners.files.problem_file import write_problem
from planners.greedy.place import place
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.registry import register

WRITERS: dict[str, Callable[[Problem, Path], None]] = {
    "json": write_problem,
    "csv": write_minimalloc_csv,
}
PLANNER = "greedy-size-first"


@register("planned-file", summary="Time the command line on a file of the problem; plan is greedy")
def planned_file(problem: Problem, budget: Budget, file: str = "json") -> Findings:
    """Write a file, uncounted, and have a process of its own read, plan and judge it."""
    plan = place(problem, "size", "first", budget=budget)
    with TemporaryDirectory() as folder:
        path, report = Path(folder, f"problem.{file}"), Path(folder, "report")
        WRITERS[file](problem, path)
        command = [
            *(sys.executable, "-m", "gapless_siblings"),
            *("evaluation.measuring.measured_command", str(report)),
            *("planners.compare", str(path), "--planners", PLANNER, "--json"),
            *("--time-limit", "3600"),
        ]
        ended = subprocess.run(command, capture_output=True, check=False, text=True)
        if ended.returncode:
            raise GaplessError(f"the command ended with {ended.returncode}: {ended.stderr[-500:]}")
        ((said,),) = (each["results"] for each in json.loads(ended.stdout)["instances"])
        if (said["peak"], said["status"]) not in ((plan.peak, "optimal"), (plan.peak, "feasible")):
            raise GaplessError(f"the command's plan is another one: {said}")
        took = json.loads(report.read_text())
        return Findings(plan, statistics={"file": file, "file_bytes": path.stat().st_size, **took})
