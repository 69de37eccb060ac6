"""``python -m planners.homosize FILE``: plans by phases and sizes, and shows every stage."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

from pathlib import Path
from typing import Annotated, Literal

import typer

from planners.command_line import standard_output
from planners.command_line.starting import EXIT_INVALID_PLAN
from planners.command_line.typer_frame import CommandLine, Iteration, OnlyStatic, Persistent
from planners.dynamic.static_part import static_part
from planners.errors import GaplessError
from planners.files.formats import read_problem
from planners.files.recording_slice import RecordingSlice, parse_iteration
from planners.homosize.explain import explain
from planners.homosize.homosize import NAME
from planners.homosize.paper_variant import PaperVariant
from planners.homosize.requests import require_plain_lifetimes, static_requests
from planners.homosize.synthesis import synthesize
from planners.judged_run import run
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.plan import Result, Status
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError, get
from planners.text.byte_units import exact_bytes, human_bytes

app = CommandLine()


@app.command()
def homosize(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An instance file.")],
    variant: Annotated[
        Literal["best", "paper"], typer.Option(help="Gapless's planner, or the published one.")
    ] = "best",
    phases: Annotated[
        bool, typer.Option(help="Group requests by phases, or plan layers alone.")
    ] = True,
    fusion: Annotated[bool, typer.Option(help="Fuse adjacent groups.")] = True,
    leftover: Annotated[
        Literal["top", "group"], typer.Option(help="Place of guests without room in their host.")
    ] = "top",
    acceptance: Annotated[
        Literal["average", "product"], typer.Option(help="Figure that a fusion must raise.")
    ] = "average",
    least_product: Annotated[
        float, typer.Option(help="Dissolve groups with a smaller product.")
    ] = 0.0,
    layers_too: Annotated[
        bool,
        typer.Option("--layers-too", help="Plan layers alone as well; the better plan counts."),
    ] = False,
    explained: Annotated[
        bool, typer.Option("--explain", help="Show groups, fusions, layers and bubbles.")
    ] = False,
    iteration: Iteration = "all",
    persistent: Persistent = True,
    only_static: OnlyStatic = False,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Wall-clock limit; none by default.")
    ] = None,
) -> None:
    """Plan one instance by computation phases and sizes.

    Exits with 1 where the plan is invalid, and with 2 after an error.
    """
    problem = read_problem(file, RecordingSlice(parse_iteration(iteration), persistent=persistent))
    if only_static:
        problem = static_part(problem).problem
    paper_variant = PaperVariant(
        phases=phases, fusion=fusion, leftover=leftover, acceptance=acceptance,
        least_product=least_product, layers_too=layers_too,
    )  # fmt: skip
    chosen = get(
        NAME, variant=variant, phases=phases, fusion=fusion, leftover=leftover,
        acceptance=acceptance, least_product=least_product, layers_too=layers_too,
    )  # fmt: skip
    budget = Budget(time_limit_seconds=time_limit)
    result = run(problem, chosen, budget, bounds_of(problem))
    if result.status is Status.UNSUPPORTED:
        raise GaplessError(f"{file}: {result.reason}")
    stages = _stages(problem, paper_variant) if explained else ""
    standard_output.write(stages + _summary(problem, result))
    raise typer.Exit(0 if result.valid else EXIT_INVALID_PLAN)


def _stages(problem: Problem, paper_variant: PaperVariant) -> str:
    try:
        require_plain_lifetimes(problem)
        return explain(synthesize(static_requests(problem), paper_variant))
    except UnsupportedProblemError as error:
        raise GaplessError(
            f"--explain: the published stages do not support {error}; leave it out"
        ) from None


def _summary(problem: Problem, result: Result) -> str:
    statistics = ", ".join(f"{key} {value}" for key, value in result.statistics.items())
    statistics += ", interrupted" if result.interrupted else ""
    if result.plan is None:
        return f"{problem.name}: {result.status.value}, {result.reason}\n"
    peak = result.plan.peak
    efficiency = result.lower_bound / peak if peak else 1.0
    return (
        f"{problem.name}: {result.status.value}, peak {human_bytes(peak)} ({exact_bytes(peak)}), "
        f"{result.certificate} bound {exact_bytes(result.lower_bound)}, "
        f"memory efficiency {efficiency:.3%}; {result.cpu_seconds:.3f} s; {statistics}\n"
    )


main = app.run

if __name__ == "__main__":
    main()
