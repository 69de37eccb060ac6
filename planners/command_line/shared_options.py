"""Options that several command lines have, with one meaning and one text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Iteration = Annotated[
    str, typer.Option(metavar="last|N|all", help="Which iteration of a recording is planned.")
]
Persistent = Annotated[
    bool, typer.Option(help="Plan blocks of a recording that were there before and stay as well.")
]
OnlyStatic = Annotated[
    bool, typer.Option("--static", help="Plan only the tensors that are not dynamic.")
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE.py", help="Python file that registers planners; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SizedDimensions = Annotated[
    list[str] | None,
    typer.Option(
        "--dimension",
        metavar="NAME=N",
        help="Size of a dimension that a model's file leaves open; repeatable.",
    ),
]
