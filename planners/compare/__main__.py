"""``python -m planners.compare``: every planner on every instance, judged, in one table."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from planners import registry
from planners.answers.isolated_planner import GRACE_SECONDS, Isolation
from planners.answers.planner_answer import OnError
from planners.command_line.ending import EXIT_INTERRUPTED, complain
from planners.command_line.starting import EXIT_ERROR, EXIT_INVALID_PLAN
from planners.command_line.typer_frame import (
    PICTURE_FILE,
    AsJson,
    CommandLine,
    Iteration,
    ListPlanners,
    OnlyStatic,
    Persistent,
    Plugins,
    Seed,
    SizedDimensions,
    TimeLimit,
)
from planners.compare import records, report
from planners.compare.comparison import Answer, Comparison, compare_planners
from planners.compare.plots import ComparisonPage, Plot, find_plot
from planners.dynamic.reusable_space import ReusableSpace, reusable_space
from planners.dynamic.static_part import is_dynamic, static_part
from planners.errors import GaplessError, UnknownPlannerError
from planners.exact.decision_tree import certify
from planners.files.certificate_file import certificate_to_fields
from planners.files.dimensions import Dimensions, parse_dimensions
from planners.files.formats import read_with_requests
from planners.files.json_file import write_fields
from planners.files.output_file import require_suffix, require_targets
from planners.files.plan_file import write_plan
from planners.files.problem_file import SUFFIXES
from planners.files.recording_slice import RecordingSlice, parse_iteration
from planners.model.budget import Budget
from planners.model.online_result import OnlineTerms
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.model.request_sequence import RequestSequence, requests_of_problem
from planners.online.online_report import online_notes, online_table, requests_line
from planners.online.online_run import OnlineRun, run_online
from planners.processes import standard_output
from planners.processes.interrupt import Interrupt
from planners.referee.certificate import check_certificate
from planners.reorder.order_planning import reorder
from planners.text.byte_units import parse_bytes
from planners.text.plain_text import one_line
from planners.text.progress_line import show_progress
from planners.text.table import aligned_pairs

# A planner that searches uses up its time limit. This limit answers an instance with a handful of
# such planners in some 15 seconds. A guess.
DEFAULT_TIME_LIMIT_SECONDS = 3.0
# The options that write the best plan. A certificate may also prove that no plan fits.
FILES_OF_THE_PLAN = ("--save-plan", "--plot", "--html")

EXIT_OF_ANSWER = {Answer.FITS: 0, Answer.DOES_NOT_FIT: 3, Answer.NOT_KNOWN: 4}
# The exit status of several instances is the first of these that one of them gives. An instance
# that does not fit proves that not all fit, so its status comes before that of an undecided one.
GRAVEST_FIRST = [
    EXIT_INTERRUPTED, EXIT_ERROR, EXIT_INVALID_PLAN, EXIT_OF_ANSWER[Answer.DOES_NOT_FIT],
    EXIT_OF_ANSWER[Answer.NOT_KNOWN], 0,
]  # fmt: skip

app = CommandLine()


@dataclass(frozen=True)
class ComparisonRequest:
    """The instances of one call, what runs on them, and within which limits."""

    files: Sequence[Path]
    recording_slice: RecordingSlice
    dimensions: Dimensions
    only_static: bool
    is_reordered: bool
    capacity: int | None
    planners: Sequence[registry.ChosenPlanner]
    # They run on a recording by default, and on any other instance if the user names them.
    online: Sequence[registry.ChosenOnline]
    is_online_asked: bool
    budget: Budget
    isolation: Isolation | None
    on_error: OnError


@dataclass(frozen=True)
class Output:
    """What one call prints and writes."""

    sort: report.SortBy
    as_json: bool
    as_csv: bool
    save_plan: Path | None
    certificate: Path | None
    plot: Path | None
    html: Path | None

    @property
    def targets(self) -> dict[str, Path]:
        """The file of each option that writes one."""
        files = {
            "--save-plan": self.save_plan,
            "--certificate": self.certificate,
            "--plot": self.plot,
            "--html": self.html,
        }
        return {option: path for option, path in files.items() if path is not None}

    @cached_property
    def picture(self) -> Plot | None:
        """What draws the best plan, if a picture is asked for."""
        return find_plot("layout", Plot) if self.plot else None

    @cached_property
    def page(self) -> ComparisonPage | None:
        """What writes the page, if one is asked for."""
        return find_plot("comparison-page", ComparisonPage) if self.html else None


Files = Annotated[list[Path] | None, typer.Argument(metavar="FILE...", help="Instance files.")]
Patterns = Annotated[
    str,
    typer.Option(
        "--planners",
        metavar="NAMES",
        help="Names or wildcards, separated by commas; NAME:KEY=VALUE sets a parameter.",
    ),
]
Online = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Online allocators, by names or wildcards; default: all on a whole recording, "
        "none on any other input.",
    ),
]
Threads = Annotated[
    int, typer.Option(help="Most threads of a planner; cp-sat and ilp-cbc use several.")
]
Sort = Annotated[report.SortBy, typer.Option(help="Sort the rows by this column.")]
Capacity = Annotated[
    str | None,
    typer.Option(metavar="BYTES", help="Ask whether a plan fits, in 24GiB or 1.5GB say."),
]
RoundTo = Annotated[
    str, typer.Option(metavar="BYTES", help="Round sizes of a recording up to multiples of this.")
]
DynamicModules = Annotated[
    str,
    typer.Option(
        metavar="PATTERNS", help="Modules of a recording whose sizes vary, separated by commas."
    ),
]
Reordered = Annotated[
    bool,
    typer.Option(
        "--reorder",
        help="Search another order of the graph's nodes and plan it; the search gets the "
        "time limit of one more planner.",
    ),
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
SavePlan = Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the best plan.")]
CertificateFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json",
        help="Write a proof of the best bound, which python -m planners.referee checks.",
    ),
]
PictureFile = Annotated[Path | None, typer.Option(metavar=PICTURE_FILE, help="Draw the best plan.")]
PageFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Write a page: the table, and a map of each plan."),
]
Isolate = Annotated[
    bool,
    typer.Option(
        help=f"Run each planner in a process of its own, killed {GRACE_SECONDS:g} s after its "
        "time limit."
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="With --isolate: most memory of a planner, such as 4GiB."),
]
ShowsTraceback = Annotated[
    bool, typer.Option("--traceback", help="Show the traceback of a planner that fails.")
]


@app.command()
def compare(
    files: Files = None,
    patterns: Patterns = "*",
    online: Online = None,
    time_limit: TimeLimit = DEFAULT_TIME_LIMIT_SECONDS,
    threads: Threads = 1,
    seed: Seed = 0,
    sort: Sort = report.SortBy.PEAK,
    capacity: Capacity = None,
    iteration: Iteration = "all",
    persistent: Persistent = True,
    round_to: RoundTo = "1",
    dynamic_modules: DynamicModules = "",
    only_static: OnlyStatic = False,
    dimension: SizedDimensions = None,
    reordered: Reordered = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    plugin: Plugins = None,
    save_plan: SavePlan = None,
    certificate: CertificateFile = None,
    plot: PictureFile = None,
    html: PageFile = None,
    isolate: Isolate = False,
    memory_limit: MemoryLimit = None,
    show_traceback: ShowsTraceback = False,
    list_planners: ListPlanners = False,
) -> None:
    """Compare planners on instance files: peak, gap to the lower bound, and time.

    Exits with 130 after Ctrl-C, 2 after an error, 1 after an invalid plan; else:

    0 without a capacity, or if every instance fits its capacity;

    3 if one is proven not to fit; 4 if it is not known whether one fits.
    """
    planners, allocators = _choose(patterns, online, plugin or [])
    if list_planners:
        standard_output.write(aligned_pairs(registry.listing(planners)))
        return
    request = ComparisonRequest(
        files or [],
        _recording_slice(iteration, persistent, round_to, dynamic_modules),
        parse_dimensions(dimension or []),
        only_static,
        reordered,
        None if capacity is None else parse_bytes("--capacity", capacity),
        planners,
        allocators,
        online is not None,
        Budget(time_limit_seconds=time_limit, threads=threads, seed=seed),
        _isolation(isolate, memory_limit),
        _show_traceback if show_traceback else lambda _error: None,
    )
    output = Output(sort, as_json, as_csv, save_plan, certificate, plot, html)
    _require_sense(request, output)
    _require_targets(request, output, plugin or [])
    with Interrupt() as interrupt:
        raise typer.Exit(_answer(request, output, interrupt))


def _choose(
    patterns: str, online: str | None, plugins: Sequence[Path]
) -> tuple[list[registry.ChosenPlanner], list[registry.ChosenOnline]]:
    """Return the named planners and allocators; all allocators by default, none for no name."""
    with standard_output.kept_for_the_answer():
        for path in plugins:
            registry.load_plugin(path)
        planners = registry.choose(patterns)
        if online is None:
            with suppress(UnknownPlannerError):  # no installed package offers any
                return planners, registry.choose_online("*")
        return planners, registry.choose_online(online) if online else []


def _recording_slice(
    iteration: str, persistent: bool, round_to: str, dynamic_modules: str
) -> RecordingSlice:
    return RecordingSlice(
        parse_iteration(iteration),
        persistent=persistent,
        round_to=parse_bytes("--round-to", round_to),
        dynamic_modules=tuple(filter(None, dynamic_modules.split(","))),
    )


def _isolation(isolate: bool, memory_limit: str | None) -> Isolation | None:
    limit = None if memory_limit is None else parse_bytes("--memory-limit", memory_limit)
    if limit is not None and not isolate:
        raise GaplessError("--memory-limit: it needs --isolate, give both")
    return Isolation(limit) if isolate else None


def _require_sense(request: ComparisonRequest, output: Output) -> None:
    if not request.files:
        raise GaplessError("no instance file named; give at least one, or --list for the planners")
    if output.as_json and output.as_csv:
        raise GaplessError("--json and --csv: one of the two is needed, found both")
    if request.is_reordered and output.save_plan is not None:
        raise GaplessError(
            "--reorder and --save-plan: a plan belongs to an instance file; write the new order "
            "with gapless instances reorder FILE -o NEW.json, and compare on that"
        )
    for option in output.targets:
        if len(request.files) > 1:
            raise GaplessError(f"{option}: one instance is needed, found {len(request.files)}")


def _require_targets(request: ComparisonRequest, output: Output, plugins: Sequence[Path]) -> None:
    require_targets(output.targets, [*request.files, *plugins])
    kinds = {
        "--save-plan": ("a plan", SUFFIXES),
        "--certificate": ("a certificate", SUFFIXES),
        "--plot": ("a picture", output.picture.suffixes if output.picture else ()),
        "--html": ("a page", output.page.suffixes if output.page else ()),
    }
    for option, path in output.targets.items():
        require_suffix(option, path, *kinds[option])


def _answer(request: ComparisonRequest, output: Output, interrupt: Interrupt) -> int:
    """Compare on each file, show it, and return the exit status."""
    instances: list[dict[str, Any]] = []
    codes = {0}
    if output.as_csv:
        standard_output.write(",".join(records.CSV_COLUMNS) + "\n")
    for index, path in enumerate(request.files):
        try:
            with standard_output.kept_for_the_answer():
                whole, recorded = read_with_requests(
                    path, request.recording_slice, request.dimensions
                )
            for drawn in (output.picture, output.page):
                if drawn is not None:
                    drawn.require_drawable(whole)
            comparison = _compare_problem(whole, request, interrupt)
            online = _run_online(comparison, recorded, request, interrupt)
            rows = report.sorted_rows(comparison.rows, output.sort)
            if output.as_json:
                instances.append(records.comparison_record(comparison, rows, str(path), online))
            elif output.as_csv:
                lines = records.csv_lines(comparison, rows, str(path), request.budget, online)
                standard_output.write(lines)
            else:
                alike = [other for other in request.files if other.name == path.name]
                where = f"{path}\n" if len(alike) > 1 else ""
                _show(comparison, online, output, "\n" * (index > 0) + where)
            online_rows = () if online is None else online.rows
            if not all([*(row.result.valid for row in rows), *(row.valid for row in online_rows)]):
                codes.add(EXIT_INVALID_PLAN)
            verdict = comparison.verdict
            if verdict is not None:
                codes.add(EXIT_OF_ANSWER[verdict.answer])
            _keep_best(comparison, whole, request, output)
            if output.page is not None and output.html is not None:
                output.page.write(comparison, rows, online, output.html)
            _keep_certificate(comparison, request.budget, output)
        except GaplessError as error:
            codes.add(complain(error))
            continue
        except KeyboardInterrupt:
            codes.add(EXIT_INTERRUPTED)
            break
        if comparison.interrupted or (online is not None and online.left_out):
            codes.add(EXIT_INTERRUPTED)
            break
    if output.as_json:
        standard_output.write(records.json_text(request.budget, instances))
    return min(codes, key=GRAVEST_FIRST.index)


def _compare_problem(
    whole: Problem, request: ComparisonRequest, interrupt: Interrupt
) -> Comparison:
    problem = static_part(whole).problem if request.only_static else whole
    if request.capacity is not None:
        problem = problem.with_capacity(request.capacity)
    reordering = None
    if request.is_reordered:
        show_progress(f"{problem.name}: another order")
        reordering = reorder(problem, request.budget)
        problem = reordering.problem
    with _progress(problem, len(request.planners)) as on_start:
        return compare_planners(
            problem,
            request.planners,
            request.budget,
            on_start=on_start,
            is_interrupted=lambda: (
                interrupt.came or (reordering is not None and reordering.interrupted)
            ),
            isolation=request.isolation,
            on_error=request.on_error,
            reordering=reordering,
        )


@contextmanager
def _progress(problem: Problem, total: int) -> Iterator[Callable[[int, str], None]]:
    """Yield a function that shows the number and label of the planner that runs now."""
    try:
        with standard_output.kept_for_the_answer():
            yield lambda index, label: show_progress(
                f"{problem.name}: {label} ({index + 1} of {total})"
            )
    finally:
        show_progress("")


def _run_online(
    comparison: Comparison,
    recorded: RequestSequence | None,
    request: ComparisonRequest,
    interrupt: Interrupt,
) -> OnlineRun | None:
    """Run online allocators on a recording or, on request, on the lifetimes of the problem."""
    problem = comparison.problem
    is_recorded = recorded is not None and not request.only_static
    if not request.online or not (is_recorded or request.is_online_asked):
        return None
    requests = recorded if recorded is not None and is_recorded else requests_of_problem(problem)
    with _progress(problem, len(request.online)) as on_start:
        return run_online(
            requests,
            request.online,
            OnlineTerms(capacity=problem.capacity),
            on_start=on_start,
            is_interrupted=lambda: interrupt.came or comparison.interrupted,
        )


def _keep_certificate(comparison: Comparison, budget: Budget, output: Output) -> None:
    path, best = output.certificate, comparison.best
    if path is None:
        return
    show_progress(f"{comparison.problem.name}: a proof for the referee")
    plan = None if best is None else best.result.plan
    try:
        proof = certify(comparison.problem, *comparison.best_bound, plan, budget)
        fields = certificate_to_fields(comparison.problem, proof)
        check_certificate(fields)
    except GaplessError as error:
        raise GaplessError(f"--certificate {path}: not written, {error}") from None
    finally:
        show_progress("")
    write_fields(fields, path)


def _keep_best(
    comparison: Comparison, whole: Problem, request: ComparisonRequest, output: Output
) -> None:
    if comparison.best is None:
        for option in FILES_OF_THE_PLAN:
            if option in output.targets:
                raise GaplessError(
                    f"{option} {output.targets[option]}: not written, because there is no plan "
                    "that fits"
                )
        return
    result = comparison.best.result
    if output.save_plan is not None:
        space = _space_for_dynamic(whole, result.plan, request)
        write_plan(comparison.problem, result, output.save_plan, space)
    if output.picture is not None and output.plot is not None:
        output.picture.draw(comparison.problem, result, comparison.bounds, output.plot)


def _space_for_dynamic(
    whole: Problem, plan: Plan | None, request: ComparisonRequest
) -> ReusableSpace | None:
    """Return the memory that a plan leaves idle for dynamic tensors; None without such tensors."""
    if plan is None or whole.safety is not Safety.LIFETIMES or not is_dynamic(whole).any():
        return None
    is_static = request.only_static
    return reusable_space(whole, plan if is_static else static_part(whole).plan_within(plan))


def _show(
    comparison: Comparison,
    online: OnlineRun | None,
    output: Output,
    above_all: str,
) -> None:
    rows = report.sorted_rows(comparison.rows, output.sort)
    below = "".join(f"{note}\n" for note in report.notes(comparison, rows))
    above = f"{above_all}{report.instance_line(comparison)}\n"
    standard_output.write_table(report.comparison_table(comparison, rows), above, below)
    if online is not None:
        below = "".join(f"{note}\n" for note in online_notes(online))
        above = f"\nonline, {requests_line(online.requests)}\n"
        standard_output.write_table(online_table(online), above, below)


def _show_traceback(error: BaseException) -> None:
    """Print the traceback of a planner's error, without control characters."""
    show_progress("")
    for line in "".join(traceback.format_exception(error)).splitlines():
        indent = " " * (len(line) - len(line.lstrip(" ")))
        typer.echo(f"{indent}{one_line(line)}", err=True)


main = app.run

if __name__ == "__main__":
    main()
