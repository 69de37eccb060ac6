"""``compare FILE --waits 0..20``: the frontier of bytes against waits, shown and written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from planners.command_line.ending import EXIT_INTERRUPTED
from planners.command_line.starting import EXIT_INVALID_PLAN
from planners.compare.plots import find_plot
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
from planners.waits.waits_frontier import WaitsFrontier, WaitsPoint
from planners.waits.waits_plots import WaitsPlot

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


def instance_beside(plan: Path) -> Path:
    """Return where the instance with its waits stands, for a plan file."""
    name = plan.name.removesuffix(".gz").removesuffix(".json")
    return plan.with_name(f"{name}.instance.json")


def show_waits(
    problem: Problem,
    file: Path,
    counts: Sequence[int],
    budget: Budget,
    *,
    as_json: bool,
    save_plan: Path | None,
    plot: Path | None,
) -> int:
    """Find the frontier of a problem, show and write it, and return the exit status."""
    drawn = None if plot is None else find_plot("waits-frontier", WaitsPlot)
    if save_plan is not None:
        require_targets({"--save-plan": instance_beside(save_plan)}, [file])
        require_suffix("--save-plan", save_plan, "a plan", SUFFIXES)
    if plot is not None and drawn is not None:
        require_suffix("--plot", plot, "a picture", drawn.suffixes)
    frontier = WaitsFrontier(problem, budget)
    points, is_interrupted = _points(frontier, counts)
    if as_json:
        record = report.frontier_record(frontier.streams, points, str(file))
        standard_output.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
    else:
        above = report.streams_line(frontier.streams, frontier.candidates)
        lines = report.waits_lines(points[-1]) if len(counts) == 1 and points else []
        below = "".join(f"{line}\n" for line in lines)
        standard_output.write_table(report.frontier_table(points), f"{above}\n", below)
    if points and save_plan is not None:
        last = points[-1]
        write_problem(last.problem, instance_beside(save_plan))
        write_plan(last.problem, last.result, save_plan)
    if points and plot is not None and drawn is not None:
        drawn.draw(points, plot)
    if is_interrupted:
        return EXIT_INTERRUPTED
    return 0 if report.all_valid(points) else EXIT_INVALID_PLAN


def _points(frontier: WaitsFrontier, counts: Sequence[int]) -> tuple[list[WaitsPoint], bool]:
    """Return the points of the frontier, and whether Ctrl-C ended it."""
    points: list[WaitsPoint] = []
    name, is_interrupted = frontier.streams.problem.name, False
    try:
        with standard_output.kept_for_the_answer():
            for point in frontier.points(
                counts, lambda count, what: show_progress(f"{name}: {count} waits, {what}")
            ):
                points.append(point)
    except KeyboardInterrupt:
        is_interrupted = True
    show_progress("")
    return points, is_interrupted
