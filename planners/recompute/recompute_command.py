"""``gapless instances recompute FILE --limit 3GiB``: keep a step within a limit of bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from planners import registry
from planners.command_line.ending import EXIT_INTERRUPTED
from planners.command_line.starting import EXIT_INVALID_PLAN
from planners.command_line.typer_frame import PICTURE_FILE, AsJson, ListPlanners, Plugins, Seed
from planners.compare.plots import find_plot
from planners.errors import GaplessError
from planners.files.named_step import read_step
from planners.files.output_file import require_suffix, require_targets, say_written
from planners.files.problem_file import SUFFIXES, write_problem
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.processes import standard_output
from planners.processes.interrupt import Interrupt
from planners.recompute import frontier_report as report
from planners.recompute.devices import DEVICES, device_rates
from planners.recompute.forward_choice import answer_problem
from planners.recompute.limit_frontier import FrontierPoint, choose_planners, frontier
from planners.recompute.limit_planner import LimitPlanner
from planners.recompute.limit_plots import FrontierPlot
from planners.recompute.limit_result import LimitResult
from planners.recompute.repeatable_step import RepeatableStep
from planners.recompute.staged_relaxation import least_limit
from planners.text.byte_units import human_bytes, parse_bytes
from planners.text.plain_text import shown
from planners.text.progress_line import show_progress
from planners.text.table import aligned_pairs

# Every planner is asked at each limit of a range, so more of them are a mistake. A guess.
MOST_POINTS = 1000
# Exit statuses: a limit that nobody meets, by proof; and one of which it is not known.
EXIT_INFEASIBLE, EXIT_NOT_KNOWN = 3, 4


@dataclass(frozen=True)
class RecomputeOptions:
    """The options of the command."""

    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A training step with a graph; or your own, FILE.py:FUNCTION or FILE.py.",
        ),
    ] = None
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- WORD...]", help="The arguments of your own FILE.py on its command line."
        ),
    ] = None
    limit: Annotated[
        str,
        typer.Option(
            metavar="LIMITS",
            help="Bytes, such as 3GiB, or a part of the peak, such as 60%; several with commas, "
            "or a range, such as 40%..100%.",
        ),
    ] = "40%..100%"
    points: Annotated[int, typer.Option(help="Limits of a range.")] = 6
    planners: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Names or wildcards, separated by commas; by default all but those that take "
            "long, such as pytorch-partitioner-*.",
        ),
    ] = None
    device: Annotated[
        str, typer.Option(help=f"Whose rates give the seconds: {', '.join(DEVICES)}.")
    ] = "h100"
    offload: Annotated[
        bool,
        typer.Option(help="Tensors may be sent to the host and fetched, at the device's rate."),
    ] = False
    time_limit: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Wall-clock limit of each planner, and of a bound."),
    ] = 5.0
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="K=V", help="Parameter of the function FILE.py:FUNCTION; repeatable."
        ),
    ] = None
    seed: Seed = 0
    as_json: AsJson = False
    plugin: Plugins = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.json",
            help="Write the fastest step within the limit as an instance, which KeptWithin takes "
            "too; of several limits, the last.",
        ),
    ] = None
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar=PICTURE_FILE,
            help="Draw extra time against the limit, of the planners named, or of the best four.",
        ),
    ] = None
    list_planners: ListPlanners = False

    def limits(self, peak: int) -> list[int]:
        """Return the limits that a user wrote, in bytes, the largest first."""
        limits = []
        for part in self.limit.split(","):
            first, dots, last = part.partition("..")
            ends = [_one_limit(end, peak) for end in ([first, last] if dots else [first])]
            if dots:
                if not 2 <= self.points <= MOST_POINTS:
                    raise GaplessError(
                        f"--points: 2 to {MOST_POINTS} are needed for a range, found {self.points}"
                    )
                limits += np.linspace(ends[0], ends[1], self.points).astype(np.int64).tolist()
            else:
                limits += ends
        return sorted(set(limits), reverse=True)

    def plot_of_frontier(self, file: Path) -> FrontierPlot | None:
        """Refuse files that cannot be written; return what draws the picture, if one is wanted."""
        drawn = find_plot("limit-frontier", FrontierPlot) if self.plot else None
        targets = {"--output": self.output, "--plot": self.plot}
        require_targets(targets, [file, *(self.plugin or [])])
        if self.output is not None:
            require_suffix("--output", self.output, "an instance", SUFFIXES)
        if self.plot is not None and drawn is not None:
            require_suffix("--plot", self.plot, "a picture", drawn.suffixes)
        return drawn


def keep_within(options: RecomputeOptions) -> None:
    """Keep a training step within a limit: compute results again rather than keep them.

    Exits with 130 after Ctrl-C, 2 after an error, 1 after an invalid plan, 3 if a limit is proven
    to be too small, and 4 if no planner meets one; else with 0.
    """
    with standard_output.kept_for_the_answer():
        for path in options.plugin or []:
            registry.load_plugin(path)
        chosen = choose_planners(
            "*" if options.list_planners and options.planners is None else options.planners
        )
    if options.list_planners:
        pairs = [(planner.name, _in_words(planner)) for planner in chosen]
        standard_output.write(aligned_pairs(pairs))
        return
    file = options.file
    if file is None:
        raise GaplessError("no instance file named; give one, or --list for the planners")
    drawn = options.plot_of_frontier(file)
    with standard_output.kept_for_the_answer():
        problem = read_step(file, options.set_ or [], options.words or [])
    step = RepeatableStep(problem, device_rates(options.device), may_send=options.offload)
    budget = Budget(time_limit_seconds=options.time_limit, seed=options.seed)
    limits = options.limits(int(step.live_bytes.max(initial=0)))
    if not options.as_json:
        standard_output.write(report.step_line(step) + "\n")
    with Interrupt():
        found, is_interrupted = standard_output.kept_until_ctrl_c(
            frontier(step, limits, chosen, budget, _show)
        )
        least = None if is_interrupted else _least(step, found, budget)
        if options.as_json:
            record = report.frontier_record(step, found, least, str(file))
            standard_output.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
        else:
            _show_points(step, found, least)
        if options.output is not None:
            _write_best(step, found, options.output)
        if options.plot is not None and drawn is not None and found:
            drawn.draw(step, found, options.planners is not None, options.plot)
        raise typer.Exit(EXIT_INTERRUPTED if is_interrupted else _exit_status(found))


def _write_best(step: RepeatableStep, found: Sequence[FrontierPoint], output: Path) -> None:
    best = found[-1].best if found else None
    if best is not None and best.sequence is not None:
        write_problem(answer_problem(step, best.sequence, best.limit), output)
        say_written(output, f"written: {output}")


def _one_limit(text: str, peak: int) -> int:
    if not text.strip().endswith("%"):
        return parse_bytes("--limit", text)
    try:
        share = float(text.strip()[:-1]) / 100
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise GaplessError(
            f"--limit: more than 0 % and at most 100 % is needed, found {shown(text)}"
        )
    return int(share * peak)


def _show(result: LimitResult) -> None:
    show_progress(f"{human_bytes(result.limit)}: {result.planner} {result.status.value}")


def _least(step: RepeatableStep, found: list[FrontierPoint], budget: Budget) -> int | None:
    """Return the smallest limit that is not ruled out, if some limit was not met."""
    if all(point.best is not None for point in found):
        return None
    return least_limit(step, budget.started())


def _show_points(step: RepeatableStep, found: list[FrontierPoint], least: int | None) -> None:
    if len(found) == 1:
        standard_output.write(report.point_line(step, found[0]) + "\n\n")
        standard_output.write_table(report.point_table(step, found[0]))
    elif found:
        standard_output.write("\n")
        standard_output.write_table(report.curve_table(step, found))
    lines = report.notes(found)
    if least is not None:
        peaks = [point.best.plan.peak for point in found
                 if point.best is not None and point.best.plan is not None]  # fmt: skip
        lines.append(report.least_line(least, min(peaks, default=None)))
    if lines:
        standard_output.write("\n" + "\n".join(lines) + "\n")


def _exit_status(found: list[FrontierPoint]) -> int:
    statuses = [result.status for point in found for result in point.results]
    if Status.INVALID in statuses:
        return EXIT_INVALID_PLAN
    if any(np.isinf(point.least_seconds) for point in found):
        return EXIT_INFEASIBLE
    return EXIT_NOT_KNOWN if any(point.best is None for point in found) else 0


def _in_words(planner: LimitPlanner) -> str:
    notes = [planner.source, *(["only if it is named"] if not planner.by_default else [])]
    return (
        f"{planner.summary} ({'; '.join(filter(None, notes))})" if any(notes) else planner.summary
    )
