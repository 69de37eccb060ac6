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
from planners.compare.frontier_command import show_frontier
from planners.compare.plots import ComparisonPage, Plot, find_plot
from planners.compare.waits_command import parse_counts, show_waits
from planners.dynamic.reusable_space import ReusableSpace, reusable_space
from planners.dynamic.static_part import is_dynamic, static_part
from planners.errors import GaplessError, UnknownPlannerError
from planners.exact.branch_and_bound.branch_and_bound import search
from planners.exact.decision_tree import certify
from planners.exact.least_cost.cost_tree import certify_cost
from planners.files.certificate_file import certificate_to_fields
from planners.files.dimensions import Dimensions, parse_dimensions
from planners.files.formats import read_with_requests
from planners.files.json_file import write_fields
from planners.files.output_file import require_suffix, require_targets
from planners.files.plan_file import write_plan
from planners.files.problem_file import SUFFIXES
from planners.files.recording_slice import RecordingSlice, parse_iteration
from planners.model.budget import Budget
from planners.model.certificate import Certificate, CostCertificate
from planners.model.online_result import OnlineTerms
from planners.model.plain_form import is_plain
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.model.request_sequence import RequestSequence, requests_of_problem
from planners.online.online_report import online_notes, online_table, requests_line
from planners.online.online_run import OnlineRun, run_online
from planners.processes import standard_output
from planners.processes.interrupt import Interrupt
from planners.referee.cost_certificate import check_any_certificate
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
class _Options:
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE...", help="Instance files.")
    ] = None
    patterns: Annotated[
        str,
        typer.Option(
            "--planners",
            metavar="NAMES",
            help="Names or wildcards, separated by commas; NAME:KEY=VALUE sets a parameter.",
        ),
    ] = "*"
    online: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Online allocators, by names or wildcards; default: all on a whole recording, "
            "none on any other input.",
        ),
    ] = None
    time_limit: TimeLimit = DEFAULT_TIME_LIMIT_SECONDS
    threads: Annotated[
        int, typer.Option(help="Most threads of a planner; cp-sat and ilp-cbc use several.")
    ] = 1
    seed: Seed = 0
    sort: Annotated[
        report.SortBy | None,
        typer.Option(help="Sort the rows by this column; by default the best come first."),
    ] = None
    capacity: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Ask whether a plan fits, in 24GiB or 1.5GB say."),
    ] = None
    iteration: Iteration = "all"
    persistent: Persistent = True
    round_to: Annotated[
        str,
        typer.Option(metavar="BYTES", help="Round sizes of a recording up to multiples of this."),
    ] = "1"
    dynamic_modules: Annotated[
        str,
        typer.Option(
            metavar="PATTERNS", help="Modules of a recording whose sizes vary, separated by commas."
        ),
    ] = ""
    only_static: OnlyStatic = False
    dimension: SizedDimensions = None
    reordered: Annotated[
        bool,
        typer.Option(
            "--reorder",
            help="Search another order of the graph's nodes and plan it; the search gets the "
            "time limit of one more planner.",
        ),
    ] = False
    waits: Annotated[
        str | None,
        typer.Option(
            metavar="A..B",
            help="Ask what so many more waits between streams save: the best ones, plans, bounds.",
        ),
    ] = None
    frontier: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Ask what plans cost, within N capacities from most to least."
        ),
    ] = None
    as_json: AsJson = False
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False
    plugin: Plugins = None
    save_plan: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the best plan.")
    ] = None
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Write a proof of the best bound, which python -m planners.referee checks.",
        ),
    ] = None
    plot: Annotated[Path | None, typer.Option(metavar=PICTURE_FILE, help="Draw the best plan.")] = (
        None
    )
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page: the table, and a map of each plan."),
    ] = None
    isolate: Annotated[
        bool,
        typer.Option(
            help=f"Run each planner in a process of its own, killed {GRACE_SECONDS:g} s after its "
            "time limit."
        ),
    ] = False
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="With --isolate: most memory of a planner, such as 4GiB."
        ),
    ] = None
    show_traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the traceback of a planner that fails.")
    ] = False
    list_planners: ListPlanners = False

    @cached_property
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

    def chosen(self) -> tuple[list[registry.ChosenPlanner], list[registry.ChosenOnline]]:
        """Return the named planners and allocators; all allocators by default, none for no name."""
        with standard_output.kept_for_the_answer():
            for path in self.plugin or []:
                registry.load_plugin(path)
            planners = registry.choose(self.patterns)
            if self.online is None:
                with suppress(UnknownPlannerError):  # no installed package offers any
                    return planners, registry.choose_online("*")
            return planners, registry.choose_online(self.online) if self.online else []

    def isolation(self) -> Isolation | None:
        """Return the limits of planners in processes of their own, if these are asked for."""
        size = self.memory_limit
        limit = None if size is None else parse_bytes("--memory-limit", size)
        if limit is not None and not self.isolate:
            raise GaplessError("--memory-limit: it needs --isolate, give both")
        return Isolation(limit) if self.isolate else None


@dataclass(frozen=True)
class ComparisonRequest:
    """What runs on each instance, read from the options."""

    recording_slice: RecordingSlice
    dimensions: Dimensions
    planners: Sequence[registry.ChosenPlanner]
    # They run on a recording by default, and on any other instance if the user names them.
    online: Sequence[registry.ChosenOnline]
    budget: Budget
    capacity: int | None
    isolation: Isolation | None


@app.command_of(_Options, "compare")
def compare(options: _Options) -> None:
    """Compare planners on instance files: peak, gap to the lower bound, and time.

    Exits with 130 after Ctrl-C, 2 after an error, 1 after an invalid plan; else:

    0 without a capacity, or if every instance fits its capacity;

    3 if one is proven not to fit; 4 if it is not known whether one fits.
    """
    planners, allocators = options.chosen()
    if options.list_planners:
        standard_output.write(aligned_pairs(registry.listing(planners)))
        return
    capacity = options.capacity
    request = ComparisonRequest(
        RecordingSlice(
            parse_iteration(options.iteration),
            persistent=options.persistent,
            round_to=parse_bytes("--round-to", options.round_to),
            dynamic_modules=tuple(filter(None, options.dynamic_modules.split(","))),
        ),
        parse_dimensions(options.dimension or []),
        planners,
        allocators,
        Budget(time_limit_seconds=options.time_limit, threads=options.threads, seed=options.seed),
        None if capacity is None else parse_bytes("--capacity", capacity),
        options.isolation(),
    )
    _require_sense(options)
    if options.waits is not None or options.frontier is not None:
        with Interrupt():
            raise typer.Exit(_answer_with_frontier(options, request))
    _require_targets(options)
    with Interrupt() as interrupt:
        raise typer.Exit(_answer(options, request, interrupt))


def _require_sense(options: _Options) -> None:
    files = options.files or []
    if not files:
        raise GaplessError("no instance file named; give at least one, or --list for the planners")
    if options.as_json and options.as_csv:
        raise GaplessError("--json and --csv: one of the two is needed, found both")
    if options.reordered and options.save_plan is not None:
        raise GaplessError(
            "--reorder and --save-plan: a plan belongs to an instance file; write the new order "
            "with gapless instances reorder FILE -o NEW.json, and compare on that"
        )
    for option in options.targets:
        if len(files) > 1:
            raise GaplessError(f"{option}: one instance is needed, found {len(files)}")


def _answer_with_frontier(options: _Options, request: ComparisonRequest) -> int:
    """Show bytes against waits, or the cost of plans against their peak; return the exit status."""
    [file, *others], waits, points = options.files or [], options.waits, options.frontier
    asked = "--frontier" if waits is None else "--waits"
    refused = {
        "--csv": options.as_csv, "--reorder": options.reordered, "--html": options.html,
        "--certificate": options.certificate, "--planners": options.patterns != "*",
        "--online": options.online, "--capacity": request.capacity, "--isolate": options.isolate,
        "a second file": others,
        "--frontier": waits is not None and points is not None,
        "--plot": waits is None and options.plot,
        "--save-plan": waits is None and options.save_plan,
    }  # fmt: skip
    for option in filter(refused.get, refused):
        raise GaplessError(f"{asked} and {option}: leave one out; auto alone plans a frontier")
    counts = parse_counts(waits) if waits is not None else ()
    with standard_output.kept_for_the_answer():
        whole, _ = read_with_requests(file, request.recording_slice, request.dimensions)
    problem = static_part(whole).problem if options.only_static else whole
    budget, files = request.budget, options.targets
    if waits is None:
        return show_frontier(problem, file, points or 0, budget, as_json=options.as_json)
    return show_waits(problem, file, counts, budget, files, as_json=options.as_json)


def _require_targets(options: _Options) -> None:
    require_targets(options.targets, [*(options.files or []), *(options.plugin or [])])
    kinds = {
        "--save-plan": ("a plan", SUFFIXES),
        "--certificate": ("a certificate", SUFFIXES),
        "--plot": ("a picture", options.picture.suffixes if options.picture else ()),
        "--html": ("a page", options.page.suffixes if options.page else ()),
    }
    for option, path in options.targets.items():
        require_suffix(option, path, *kinds[option])


def _answer(options: _Options, request: ComparisonRequest, interrupt: Interrupt) -> int:
    """Compare on each file, show it, and return the exit status."""
    instances: list[dict[str, Any]] = []
    files = options.files or []
    codes = {0}
    if options.as_csv:
        standard_output.write(",".join(records.CSV_COLUMNS) + "\n")
    for index, path in enumerate(files):
        try:
            with standard_output.kept_for_the_answer():
                whole, recorded = read_with_requests(
                    path, request.recording_slice, request.dimensions
                )
            for drawn in (options.picture, options.page):
                if drawn is not None:
                    drawn.require_drawable(whole)
            comparison = _compare_problem(whole, options, request, interrupt)
            online = _run_online(comparison, recorded, options, request, interrupt)
            rows = report.sorted_rows(comparison, options.sort)
            if options.as_json:
                instances.append(records.comparison_record(comparison, rows, str(path), online))
            elif options.as_csv:
                lines = records.csv_lines(comparison, rows, str(path), request.budget, online)
                standard_output.write(lines)
            else:
                alike = [other for other in files if other.name == path.name]
                where = f"{path}\n" if len(alike) > 1 else ""
                _show(comparison, online, options, "\n" * (index > 0) + where)
            online_rows = () if online is None else online.rows
            if not all([*(row.result.valid for row in rows), *(row.valid for row in online_rows)]):
                codes.add(EXIT_INVALID_PLAN)
            verdict = comparison.verdict
            if verdict is not None:
                codes.add(EXIT_OF_ANSWER[verdict.answer])
            _keep_best(comparison, whole, options)
            if options.page is not None and options.html is not None:
                options.page.write(comparison, rows, online, options.html)
            _keep_certificate(comparison, request.budget, options)
        except GaplessError as error:
            codes.add(complain(error))
            continue
        except KeyboardInterrupt:
            codes.add(EXIT_INTERRUPTED)
            break
        if comparison.interrupted or (online is not None and online.left_out):
            codes.add(EXIT_INTERRUPTED)
            break
    if options.as_json:
        standard_output.write(records.json_text(request.budget, instances))
    return min(codes, key=GRAVEST_FIRST.index)


def _compare_problem(
    whole: Problem, options: _Options, request: ComparisonRequest, interrupt: Interrupt
) -> Comparison:
    problem = static_part(whole).problem if options.only_static else whole
    if request.capacity is not None:
        problem = problem.with_capacity(request.capacity)
    reordering = None
    if options.reordered:
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
            on_error=_show_traceback if options.show_traceback else lambda _error: None,
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
    options: _Options,
    request: ComparisonRequest,
    interrupt: Interrupt,
) -> OnlineRun | None:
    """Run online allocators on a recording or, on request, on the lifetimes of the problem."""
    problem = comparison.problem
    is_recorded = recorded is not None and not options.only_static
    if not request.online or not (is_recorded or options.online is not None):
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


def _keep_certificate(comparison: Comparison, budget: Budget, options: _Options) -> None:
    path, best = options.certificate, comparison.best
    if path is None:
        return
    show_progress(f"{comparison.problem.name}: a proof for the referee")
    plan = None if best is None else best.result.plan
    try:
        if not is_plain(comparison.problem):
            raise GaplessError("only a problem without memories and classes of tensors has one")
        proof: Certificate | CostCertificate
        if best is not None and plan is not None and comparison.problem.cost_decides:
            cost = best.result.cost_bound
            proof = certify_cost(comparison.problem, cost, plan, search, budget)
        else:
            proof = certify(comparison.problem, *comparison.best_bound, plan, budget)
        fields = certificate_to_fields(comparison.problem, proof)
        check_any_certificate(fields)
    except GaplessError as error:
        raise GaplessError(f"--certificate {path}: not written, {error}") from None
    finally:
        show_progress("")
    write_fields(fields, path)


def _keep_best(comparison: Comparison, whole: Problem, options: _Options) -> None:
    if comparison.best is None:
        for option in FILES_OF_THE_PLAN:
            if option in options.targets:
                raise GaplessError(
                    f"{option} {options.targets[option]}: not written, because there is no plan "
                    "that fits"
                )
        return
    result = comparison.best.result
    if options.save_plan is not None:
        space = _space_for_dynamic(whole, result.plan, options.only_static)
        write_plan(comparison.problem, result, options.save_plan, space)
    if options.picture is not None and options.plot is not None:
        options.picture.draw(comparison.problem, result, comparison.bounds, options.plot)


def _space_for_dynamic(
    whole: Problem, plan: Plan | None, only_static: bool
) -> ReusableSpace | None:
    """Return the memory that a plan leaves idle for dynamic tensors; None without such tensors."""
    if plan is None or whole.safety is not Safety.LIFETIMES or not is_dynamic(whole).any():
        return None
    return reusable_space(whole, plan if only_static else static_part(whole).plan_within(plan))


def _show(
    comparison: Comparison,
    online: OnlineRun | None,
    options: _Options,
    above_all: str,
) -> None:
    rows = report.sorted_rows(comparison, options.sort)
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
