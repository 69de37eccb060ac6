"""``python -m instances.extract NAME -o FILE``: extract a training step from a PyTorch model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from instances.extract.eager.command import app as trace_app
from instances.extract.extraction import extract
from instances.extract.settings import StepSettings
from planners.errors import GaplessError, InstanceError
from planners.problem_file import write_problem

DEFAULTS = StepSettings()

app = typer.Typer(add_completion=False)


@app.command(epilog="`trace NAME` traces eager training instead: see `trace --help`.")
def main(
    name: Annotated[str, typer.Argument(help="Model, such as bert-base.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Instance file, .json or .json.gz.")
    ],
    batch: Annotated[int, typer.Option(help="Sequences in the batch.")] = DEFAULTS.batch,
    seq: Annotated[int, typer.Option(help="Tokens in a sequence.")] = DEFAULTS.seq,
    optimizer: Annotated[str, typer.Option(help="Optimizer.")] = DEFAULTS.optimizer,
    clip_norm: Annotated[
        float, typer.Option(help="Largest global norm of the gradients; 0: no clipping.")
    ] = DEFAULTS.clip_norm,
    nodes_per_stream: Annotated[
        int, typer.Option(help="A stream that holds this many nodes is full.")
    ] = DEFAULTS.nodes_per_stream,
    bucket_mb: Annotated[
        int, typer.Option(help="Capacity of an all-reduce bucket in units of 2**20 bytes.")
    ] = DEFAULTS.bucket_mb,
) -> None:
    """Extract the training step of a model as an instance file, without weights or download."""
    try:
        settings = StepSettings(batch, seq, optimizer, clip_norm, nodes_per_stream, bucket_mb)
        problem = extract(name, settings)
        try:
            write_problem(problem, output)
        except OSError as error:
            raise InstanceError(f"{output}: cannot be written: {error.strerror}") from None
    except GaplessError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(
        f"{output}: {problem.tensor_count} tensors, {len(problem.contiguous)} chains, "
        f"{output.stat().st_size} bytes"
    )


def run() -> None:
    """Trace where the first word says so, else extract the graph of the model it names."""
    if sys.argv[1:2] == ["trace"]:
        trace_app(sys.argv[2:], prog_name="python -m instances.extract trace")
    else:
        app(prog_name="python -m instances.extract")


if __name__ == "__main__":
    run()
