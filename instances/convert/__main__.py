"""``python -m instances.convert SOURCE -o TARGET``: from one file format to another."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from instances.convert.conversion import Conversion, convert
from instances.convert.source import Selection
from planners.errors import GaplessError
from planners.exit_status import complain

DEFAULT_TIME_LIMIT_SECONDS = 10.0

app = typer.Typer(add_completion=False)


@app.command()
def main(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="File of any format that is read.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    to: Annotated[
        str | None,
        typer.Option(
            help="gapless-json, minimalloc-csv, snapshot, perfetto, npz or stalloc; by default "
            "what the suffix says."
        ),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Plan to write, of --save-plan.")
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
        bool, typer.Option(help="Keep blocks that are there before the iteration and after it.")
    ] = True,
    round_to: Annotated[
        int, typer.Option(metavar="BYTES", help="Round sizes up to multiples of this.")
    ] = 1,
    device: Annotated[int | None, typer.Option(help="Device of a memory snapshot.")] = None,
) -> None:
    """Read a problem or a trace, plan it where asked, and write it in another format."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
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
                )
            )
        except GaplessError as error:
            raise typer.Exit(complain(error)) from None
    typer.echo(said)


def _show_warning(message: Warning | str, *_where: object, **_rest: object) -> None:
    typer.echo(f"warning: {' '.join(str(message).split())}", err=True)


if __name__ == "__main__":
    app(prog_name="python -m instances.convert")
