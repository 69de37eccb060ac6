"""``python -m instances.extract trace NAME -o FILE``: trace the eager training of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from instances.catalogue.instance_folders import named_after
from instances.extract.models.model_registry import Models, register_own_models
from instances.extract.models.named_model import files_of
from instances.extract.own.own_function import is_own, require_left_out, require_no_set
from instances.extract.record.own_extraction import open_own, trace_own, write_made
from instances.extract.record.recording import DEVICES, record
from instances.extract.record.trace_settings import (
    Batch,
    Checkpointing,
    Image,
    Layers,
    Lora,
    Microbatches,
    Optimizer,
    Precision,
    Selective,
    Seq,
    Set,
    TraceSettings,
    Words,
    given,
)
from instances.formats.recorded_trace import write_recorded_trace
from instances.traces.allocation_trace import NOTES, AllocationTrace
from instances.traces.trace_problem import iteration_problem
from planners.command_line.typer_frame import CommandLine
from planners.errors import InstanceError
from planners.files.output_file import require_targets
from planners.files.problem_file import SUFFIXES, write_problem
from planners.text.progress_line import show_progress

DEFAULTS = TraceSettings()

app = CommandLine()


@app.command()
def trace(
    name: Annotated[
        str, typer.Argument(help="Model, such as bert-base, or your own, FILE.py:FUNCTION.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Trace (.npz), or the problem of its last iteration (.json or .json.gz).",
        ),
    ],
    words: Words = None,
    batch: Batch = None,
    seq: Seq = None,
    image: Image = None,
    layers: Layers = None,
    checkpointing: Checkpointing = None,
    selective: Selective = None,
    lora: Lora = None,
    steps: Annotated[int, typer.Option(help="Iterations.")] = DEFAULTS.steps,
    microbatches: Microbatches = None,
    precision: Precision = None,
    optimizer: Optimizer = None,
    device: Annotated[
        str | None,
        typer.Option(help="fake (the default; no GPU) or cuda (records PyTorch's own history)."),
    ] = None,
    set_: Set = None,
    models: Models = None,
) -> None:
    """Trace the requests of eager training to the GPU's allocator, without weights or download.

    Options left out take the model's defaults.
    """
    shape: dict[str, Any] = {
        **given(batch=batch, seq=seq, image=image, layers=layers),
        **given(checkpointing=checkpointing, selective=selective, lora=lora),
    }
    loop: dict[str, Any] = given(
        microbatches=microbatches, precision=precision, optimizer=optimizer
    )
    write = _writer(output)
    require_targets({"--output": output}, files_of(name, models))
    if is_own(name):
        require_left_out(name, {**shape, **loop, **given(device=device)})
    else:
        require_no_set(name, set_, words)

    def make(path: Path) -> str:
        register_own_models(models or ())
        if is_own(name):
            found = trace_own(
                open_own(name, set_ or [], show_progress, words or ()), steps, show_progress
            )
        else:
            settings = TraceSettings(steps, **loop)
            found = record(name, settings, device or DEVICES[0], show_progress, **shape)
        show_progress(f"{name}: writing")
        write(found, path)
        return _summary(found, output)

    write_made(name, models, output, make)


def _summary(found: AllocationTrace, output: Path) -> str:
    lines = str(found.origin.get(NOTES, "")).splitlines()
    counts = f"{found.request_count} requests in {found.iteration_count} iterations"
    return "\n".join([*lines, f"{output}: {counts}, {len(found.module_names)} modules"])


def _writer(output: Path) -> Callable[[AllocationTrace, Path], None]:
    name = output.name.lower()
    if name.endswith(".npz"):
        return write_recorded_trace
    if name.endswith(SUFFIXES):
        return lambda trace, path: write_problem(named_after(iteration_problem(trace), path), path)
    raise InstanceError(
        f"{output}: a trace is written as .npz, the problem of its last iteration as .json or "
        f".json.gz, found the name {output.name!r}"
    )
