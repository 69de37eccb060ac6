"""``gapless instances reorder FILE``: look for an order that needs fewer bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planners.command_line.ending import EXIT_INTERRUPTED
from planners.command_line.typer_frame import AsJson, Seed, SizedDimensions
from planners.files.dimensions import parse_dimensions
from planners.files.formats import read_with_requests
from planners.files.json_file import compact_json
from planners.files.output_file import require_suffix, require_targets, say_written
from planners.files.problem_file import SUFFIXES, write_problem
from planners.files.recording_slice import RecordingSlice
from planners.model.budget import Budget
from planners.processes import standard_output
from planners.reorder.order_planning import DEFAULT_TIME_LIMIT_SECONDS, reorder
from planners.reorder.reordering import reordering_record, reordering_text


def reorder_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An instance with a graph.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.json", help="Write the reordered instance."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help=f"Wall-clock limit; {DEFAULT_TIME_LIMIT_SECONDS:g} without a node limit.",
        ),
    ] = None,
    node_limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="Most sets and moves; repeats a search exactly."),
    ] = None,
    seed: Seed = 0,
    dimension: SizedDimensions = None,
    as_json: AsJson = False,
) -> None:
    """Look for an order of a graph's nodes with a lower bound on the peak.

    Arcs of data and control have to be all that orders the nodes; streams and chains stay. After
    Ctrl-C the best order so far is shown and written, and the exit status is 130.
    """
    require_targets({"--output": output}, [file])
    if output is not None:
        require_suffix("--output", output, "an instance", SUFFIXES)
    if time_limit is None and node_limit is None:
        time_limit = DEFAULT_TIME_LIMIT_SECONDS
    budget = Budget(time_limit_seconds=time_limit, node_limit=node_limit, seed=seed)
    with standard_output.kept_for_the_answer():
        problem, _ = read_with_requests(file, RecordingSlice(), parse_dimensions(dimension or []))
    found = reorder(problem, budget)
    if output is not None:
        write_problem(found.problem, output)
    if as_json:
        standard_output.write(compact_json(reordering_record(found)) + "\n")
    else:
        standard_output.write(reordering_text(found) + "\n")
        if output is not None:
            say_written(output, f"written: {output}")
    raise typer.Exit(EXIT_INTERRUPTED if found.interrupted else 0)
