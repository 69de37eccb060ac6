"""Measures training steps within limits of memory, and prints the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from evaluation.benchmarks.limited_steps import MODELS, run_of_record
from evaluation.benchmarks.within_a_limit import study_limits, within_a_limit_page
from evaluation.measuring.cores import pin_to_one_core
from planners.command_line import standard_output
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError, near_names
from planners.files.output_file import require_targets, write_output

Repetitions = Annotated[int, typer.Option(min=1, help="Runs of each; the median counts.")]
Output = Annotated[Path | None, typer.Option("-o", help="Write the page here as well.")]


def within_a_limit(
    records: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Show earlier files of --json; measure nothing."),
    ] = None,
    models: Annotated[
        str, typer.Option(metavar="NAMES", help=f"With commas, of: {', '.join(MODELS)}.")
    ] = ",".join(MODELS),
    device: Annotated[str, typer.Option(help="cuda, or cpu with tiny models as a check.")] = "cuda",
    repetitions: Repetitions = 5,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time of the planner at each limit.")
    ] = 5.0,
    record: Annotated[
        Path | None, typer.Option("--json", help="Keep all measurements here.")
    ] = None,
    output: Output = None,
) -> None:
    """Run training steps within limits of memory, and compare with what was predicted."""
    pin_to_one_core()
    require_targets({"-o": output, "--json": record}, records or [])
    chosen = []
    for name in models.split(","):
        if name not in MODELS:
            raise GaplessError(f"--models: {near_names(name, MODELS)}, found {name!r}")
        chosen.append(MODELS[name])
    if device not in ("cuda", "cpu"):
        raise GaplessError(f"--device: cuda or cpu is needed, found {device!r}")
    command = " ".join((
        "python -m evaluation.study within-a-limit", f"--models {models}", f"--device {device}",
        f"--repetitions {repetitions}", f"--seconds {seconds:g}",
    ))  # fmt: skip

    runs = [run_of_record(each) for path in records or [] for each in json.loads(path.read_text())]
    if not records:
        for run in study_limits(chosen, device, repetitions, seconds):
            runs.append(run)
            if record is not None:
                write_output(record, json.dumps(runs, default=vars).encode())
    text = within_a_limit_page(runs, command)
    show_progress("")
    if output is not None:
        write_output(output, text.encode())
    standard_output.write(text)
