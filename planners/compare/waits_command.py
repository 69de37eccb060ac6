"""``compare FILE --waits 0..20``: the frontier of bytes against waits, shown and written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from planners.command_line.ending import EXIT_INTERRUPTED
from planners.compare.plots import WaitsPlot, find_plot
from planners.errors import GaplessError
from planners.files.output_file import require_suffix, require_targets
from planners.files.plan_file import write_plan
from planners.files.problem_file import SUFFIXES, write_problem
from planners.model.budget import Budget
from planners.model.problem import Problem
from planners.processes import standard_output
from planners.text.plain_text import shown
from planners.text.progress_line import show_progress
from planners.waits import waits_report as report
from planners.waits.waits_frontier import WaitsFrontier

MOST_WAITS = 10_000


def parse_counts(text: str) -> Sequence[int]:
    """Return the numbers of waits that ``A..B``, or one number, asks for."""
    found = re.fullmatch(r"(\d{1,5})(?:\.\.(\d{1,5}))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last <= MOST_WAITS:
        raise GaplessError(
            f"--waits: A..B with A <= B <= {MOST_WAITS}, or one number, is needed, such as 0..20; "
            f"found {shown(text)}"
        )
    return range(first, last + 1)


def show_waits(
    problem: Problem, file: Path, counts: Sequence[int], budget: Budget, files: Mapping[str, Path],
    *, as_json: bool,
) -> int:  # fmt: skip
    """Find the frontier of a problem, show and write it, and return the exit status."""
    plan, plot = files.get("--save-plan"), files.get("--plot")
    drawn = None if plot is None else find_plot("waits-frontier", WaitsPlot)
    if plan is not None:
        require_suffix("--save-plan", plan, "a plan", SUFFIXES)
        beside = plan.with_name(plan.name.partition(".json")[0] + ".instance.json")
        files = {**files, "--save-plan, the instance": beside}
    if plot is not None and drawn is not None:
        require_suffix("--plot", plot, "a picture", drawn.suffixes)
    require_targets(files, [file])
    frontier = WaitsFrontier(problem, budget)
    points, is_interrupted = standard_output.kept_until_ctrl_c(
        frontier.points(
            counts, lambda count, what: show_progress(f"{problem.name}: {count} waits, {what}")
        )
    )
    if as_json:
        record = report.frontier_record(frontier, points, str(file))
        standard_output.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
    else:
        lines = report.waits_lines(points[-1]) if len(counts) == 1 and points else []
        below = "".join(f"{line}\n" for line in lines)
        above = f"{report.streams_line(frontier)}\n"
        standard_output.write_table(report.frontier_table(points), above, below)
    if points and plan is not None:
        write_problem(points[-1].problem, beside)
        write_plan(points[-1].problem, points[-1].result, plan)
    if points and plot is not None and drawn is not None:
        drawn.draw(points, plot)
    return EXIT_INTERRUPTED if is_interrupted else 0
