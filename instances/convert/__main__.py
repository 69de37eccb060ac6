"""``python -m instances.convert SOURCE -o TARGET``: from one file format to another."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

from pathlib import Path
from typing import Annotated

import typer

from instances.convert.conversion import Conversion, Selection, convert
from planners.command_line.typer_frame import CommandLine, SizedDimensions
from planners.files.dimensions import parse_dimensions
from planners.files.output_file import say_written
from planners.text.byte_units import parse_bytes

DEFAULT_TIME_LIMIT_SECONDS = 10.0

app = CommandLine()


@app.command("convert")
def convert_file(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="File in any known format.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    to: Annotated[
        str | None,
        typer.Option(
            help="gapless-json, plan, c-header, minimalloc-csv, snapshot, perfetto, tflite, "
            "dsa-problem, dsa-solution, npz or stalloc; by default the format of the suffix."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Plan to write, from --save-plan; or .dsa-solution.json."
        ),
    ] = None,
    planner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Planner that makes the plan to write.")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="Wall-clock limit of the planner.")
    ] = DEFAULT_TIME_LIMIT_SECONDS,
    iteration: Annotated[
        str | None,
        typer.Option(
            metavar="last|N|all",
            help="Part of a trace; by default the last iteration where phases are marked.",
        ),
    ] = None,
    persistent: Annotated[
        bool, typer.Option(help="Keep blocks that live before and after the iteration.")
    ] = True,
    round_to: Annotated[
        int, typer.Option(metavar="BYTES", help="Round sizes up to multiples of this.")
    ] = 1,
    device: Annotated[int | None, typer.Option(help="Device of a memory snapshot.")] = None,
    dimension: SizedDimensions = None,
    align: Annotated[
        str, typer.Option(metavar="BYTES", help="Start every tensor at a multiple of this.")
    ] = "1",
) -> None:
    """Read a problem or a trace, plan it where asked, and write it in another format.

    After Ctrl-C the best plan that the planner has is written, and the exit status is 130.
    """
    said = convert(
        Conversion(
            source,
            output,
            target=to,
            plan=plan,
            planner=planner,
            time_limit_seconds=time_limit,
            selection=Selection(iteration, persistent, round_to),
            device=device,
            dimensions=parse_dimensions(dimension or []),
            align=parse_bytes("--align", align),
        )
    )
    say_written(output, said)


main = app.run

if __name__ == "__main__":
    main()
