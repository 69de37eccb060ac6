"""``python -m gpu_runtime.explain``: why memory ran out, and what would have helped."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpu_runtime.explaining.explained_moment import find_moment
from gpu_runtime.explaining.explanation import Explanation, ExplanationPage
from gpu_runtime.explaining.explanation_report import explanation_json, last_lines, sections_of
from gpu_runtime.explaining.other_allocators import replay_changes
from gpu_runtime.fitting.fit_report import write_sections
from planners.command_line.typer_frame import AsJson, CommandLine
from planners.compare.plots import find_plot
from planners.files.output_file import require_suffix, require_targets
from planners.files.replayed_pipe import readable_twice
from planners.processes import standard_output
from planners.text.byte_units import parse_bytes
from planners.text.progress_line import show_progress

PAGE = "explanation-page"

app = CommandLine()


@dataclass(frozen=True)
class _Options:
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A memory snapshot of PyTorch, or a recording.")
    ]
    device: Annotated[
        int | None, typer.Option(help="Number of the GPU, if the snapshot has several.")
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Memory of the GPU; by default what the file tells."),
    ] = None
    failure: Annotated[
        int | None,
        typer.Option(metavar="N", help="Which request that failed, from 1; by default the last."),
    ] = None
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE.html", help="Write a page with a memory map."),
    ] = None
    as_json: AsJson = False


@app.command_of(_Options, "explain")
def explain_file(options: _Options) -> None:
    """Say why memory ran out: what is alive, what is stranded, and what would have helped."""
    page = None
    if options.page is not None:
        require_targets({"--html": options.page}, [options.file])
        page = find_plot(PAGE, ExplanationPage)
        require_suffix("--html", options.page, "a page", page.suffixes)
    memory = None if options.memory is None else parse_bytes("--memory", options.memory)
    try:
        show_progress(f"reading {options.file.name}")
        with standard_output.kept_for_the_answer(), readable_twice(options.file) as file:
            moment = find_moment(file, options.device, memory, options.failure)
            replays = replay_changes(moment, show_progress)
    finally:
        show_progress("")
    explanation = Explanation(options.file.name, moment, replays)
    if options.as_json:
        standard_output.write(explanation_json(explanation))
    else:
        write_sections(sections_of(explanation))
        lines = last_lines(explanation)
        standard_output.write("".join(f"{line}\n" for line in ["", *lines] if lines))
    if page is not None and options.page is not None:
        page.draw(explanation, options.page)


main = app.run

if __name__ == "__main__":
    main()
