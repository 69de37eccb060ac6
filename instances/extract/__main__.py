"""``python -m instances.extract NAME -o FILE``: extract a step of a PyTorch model."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from instances.catalogue.instance_folders import named_after
from instances.extract.executorch.lowering import app as executorch_app
from instances.extract.models import MODELS, find_model
from instances.extract.models.model_registry import Models, register_own_models
from instances.extract.models.named_model import files_of
from instances.extract.own.own_function import is_own, require_left_out, require_no_set
from instances.extract.record.own_extraction import OWN_DEFAULTS, extract_own, open_own, write_made
from instances.extract.record.recording import extract
from instances.extract.record.trace_settings import (
    Checkpointing,
    Image,
    Layers,
    Seq,
    Set,
    Words,
    given,
)
from instances.extract.trace_command import app as trace_app
from planners.command_line.typer_frame import CommandLine
from planners.files.output_file import require_suffix, require_targets
from planners.files.problem_file import SUFFIXES, write_problem
from planners.text.progress_line import show_progress

app = CommandLine()

# First words that are commands and not names of models.
OTHERS = {"trace": trace_app, "executorch": executorch_app}


@app.command(
    epilog="With the word trace before the name, eager training is traced instead; with the word "
    "executorch, the tensors that ExecuTorch plans are extracted. Either word has a --help."
)
def extract_model(
    name: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(sorted(MODELS))}; or your own training step, FILE.py:FUNCTION."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Instance file, .json or .json.gz.")
    ],
    words: Words = None,
    batch: Annotated[int | None, typer.Option(help="Sequences or images in the batch.")] = None,
    seq: Seq = None,
    image: Image = None,
    layers: Layers = None,
    mode: Annotated[
        str | None, typer.Option(help="training (a whole step) or inference (forward pass).")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16.")] = None,
    checkpointing: Checkpointing = None,
    optimizer: Annotated[str | None, typer.Option(help="Optimizer.")] = None,
    clip_norm: Annotated[
        float | None, typer.Option(help="Largest global norm of the gradients; 0: no clipping.")
    ] = None,
    nodes_per_stream: Annotated[int | None, typer.Option(help="Most nodes of a stream.")] = None,
    bucket_mb: Annotated[
        int | None, typer.Option(help="Capacity of a bucket in units of 2**20 bytes.")
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option(
            help="category (a new stream follows each full one), succession (the new stream also "
            "waits for the full one), or roles (one each for computation, communication and "
            "copies)."
        ),
    ] = None,
    parallel: Annotated[
        str | None,
        typer.Option(help="replicated, or sharded (parameters are gathered unit by unit)."),
    ] = None,
    ranks: Annotated[
        int | None, typer.Option(help="Ranks that share parameters or experts.")
    ] = None,
    set_: Set = None,
    models: Models = None,
) -> None:
    """Extract a step of a model as an instance file, without weights or download.

    Options left out take the model's defaults, which have the scale of the paper's experiments.
    """
    changes: dict[str, Any] = given(
        batch=batch, seq=seq, image=image, layers=layers, mode=mode, precision=precision,
        checkpointing=checkpointing, optimizer=optimizer, clip_norm=clip_norm,
        nodes_per_stream=nodes_per_stream, bucket_mb=bucket_mb, streams=streams,
        parallel=parallel, ranks=ranks,
    )  # fmt: skip
    require_targets({"--output": output}, files_of(name, models))
    require_suffix("--output", output, "a problem", SUFFIXES)
    dealing: dict[str, Any] = given(streams=streams, nodes_per_stream=nodes_per_stream)
    if is_own(name):
        require_left_out(name, {key: changes[key] for key in changes if key not in dealing})
    else:
        require_no_set(name, set_, words)

    def make(path: Path) -> str:
        register_own_models(models or ())
        if is_own(name):
            function = open_own(name, set_ or [], show_progress, words or ())
            problem = extract_own(function, replace(OWN_DEFAULTS, **dealing), show_progress)
        else:
            problem = extract(name, find_model(name).settings(**changes), show_progress)
        show_progress(f"{name}: writing")
        write_problem(named_after(problem, output), path)
        return f"{output}: {problem.tensor_count} tensors, {len(problem.contiguous)} chains"

    write_made(name, models, output, make)


def main(args: Sequence[str] | None = None, prog_name: str | None = None) -> None:
    """Run the command that the first word names, else extract the graph of that model."""
    words = sys.argv[1:] if args is None else args
    name = prog_name or "python -m instances.extract"
    other = OTHERS.get(words[0]) if words else None
    if other is not None:
        other.run(words[1:], f"{name} {words[0]}")
    else:
        app.run(words, name)


if __name__ == "__main__":
    main()
