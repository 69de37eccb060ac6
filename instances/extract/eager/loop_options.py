"""Options of a model's shape and of an eager training loop, alike on every command line."""

from __future__ import annotations

from typing import Annotated, TypeVar

import typer

Batch = Annotated[int | None, typer.Option(help="Sequences or images in a microbatch.")]
Seq = Annotated[int | None, typer.Option(help="Tokens in a sequence.")]
Image = Annotated[int | None, typer.Option(help="Height and width of an image.")]
Layers = Annotated[int | None, typer.Option(help="Layers of the model.")]
Checkpointing = Annotated[
    bool | None,
    typer.Option("--checkpointing/--no-checkpointing", help="Recompute activations by layer."),
]
Microbatches = Annotated[
    int | None,
    typer.Option(help="Forward and backward passes for each step of the optimizer; 1 by default."),
]
Precision = Annotated[
    str | None, typer.Option(help="autocast-bfloat16, the default, float32 or bfloat16.")
]
Optimizer = Annotated[str | None, typer.Option(help="adamw, the default, or sgd.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="K=V", help="A parameter of the function that FILE.py:FUNCTION is."
    ),
]

Value = TypeVar("Value")


def given(**options: Value | None) -> dict[str, Value]:
    """Return the options that are not left to the model."""
    return {option: value for option, value in options.items() if value is not None}
