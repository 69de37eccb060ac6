"""``python -m gpu_runtime.train``: train a model under a plan and under PyTorch's allocators."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import json
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from gpu_runtime.training.allocator_comparison import AllocatorComparison, compare_allocators
from gpu_runtime.training.comparison_report import (
    UNITS,
    notes,
    study_record,
    study_table,
)
from gpu_runtime.training.run_specification import (
    JUDGED,
    Allocator,
    Purpose,
    RunSpecification,
)
from gpu_runtime.verification.devices.cuda.driver import require_gpu
from instances.extract.eager.loop_options import (
    Batch,
    Checkpointing,
    Image,
    Layers,
    Microbatches,
    Optimizer,
    Precision,
    Seq,
    given,
)
from instances.extract.eager.trace_settings import TraceSettings
from instances.extract.models import find_model
from instances.extract.models.own_models import Models, register_own_models
from planners.command_line import standard_output
from planners.command_line.ending import complain
from planners.command_line.shared_options import AsJson
from planners.command_line.starting import EXIT_ERROR
from planners.command_line.typer_frame import CommandLine
from planners.errors import GaplessError, MissingDependencyError, near_names
from planners.registry import choose_one

EXIT_DIFFERENT = 1

# The plan is in force from the fourth step on, and the caches of PyTorch are warm by then.
FEWEST_WARM_UP = 6
STEPS = 5

app = CommandLine()


@app.command("train")
def train_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Such as bert-base.")],
    planner: Annotated[str, typer.Option(metavar="NAME", help="Who plans.")] = "auto",
    steps: Annotated[
        int, typer.Option(help="Steps that are compared bit by bit; three come before a plan.")
    ] = STEPS,
    timed_steps: Annotated[int, typer.Option(help="Steps that are timed.")] = 30,
    warm_up: Annotated[int, typer.Option(help="Steps before the timed ones.")] = FEWEST_WARM_UP,
    time_limit: Annotated[float, typer.Option(help="Seconds that planning may take.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of weights, inputs and dropout.")] = 0,
    batch: Batch = None,
    seq: Seq = None,
    image: Image = None,
    layers: Layers = None,
    checkpointing: Checkpointing = None,
    microbatches: Microbatches = None,
    precision: Precision = None,
    optimizer: Optimizer = None,
    models: Models = None,
    allocators: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Of {', '.join(Allocator)}, in this order.")
    ] = ",".join(JUDGED),
    as_json: AsJson = False,
) -> None:
    """Train on the GPU under a plan: the same bits, how much memory, how long.

    Every allocator has processes of its own. Exits with 1 where losses, gradients or parameters
    differ or no step was served by the plan, and 2 after an error.
    """
    shape = given(batch=batch, seq=seq, image=image, layers=layers, checkpointing=checkpointing)
    loop: dict[str, Any] = given(
        microbatches=microbatches, precision=precision, optimizer=optimizer
    )
    comparison = AllocatorComparison()
    chosen = _parse_allocators(allocators)
    specification = RunSpecification(
        purpose=Purpose.CHECK,
        allocator=chosen[0],
        model=model,
        shape=shape,
        settings=TraceSettings(steps, **loop),
        warm_up=warm_up,
        timed_steps=timed_steps,
        seed=seed,
        planner=planner,
        time_limit=time_limit,
        models=tuple(str(file) for file in models or ()),
    )
    require_sound(specification)
    try:
        compare_allocators(specification, chosen, comparison, _progress)
    except KeyboardInterrupt:
        typer.echo(err=True)  # below the line of what was running
        _print(specification, comparison, as_json)
        raise
    _print(specification, comparison, as_json)
    for label, message in comparison.failures.items():
        complain(GaplessError(f"{label}: {message}"))
    code = EXIT_ERROR if comparison.failures else 0 if comparison.passed else EXIT_DIFFERENT
    raise typer.Exit(code)


def require_sound(specification: RunSpecification) -> None:
    """Raise what every worker would fail for, before any is started."""
    register_own_models(map(Path, specification.models))
    model = find_model(specification.model)
    model.settings(**specification.shape, precision=specification.settings.weights_precision)
    choose_one(specification.planner)
    for option, value, least in (
        ("--warm-up", specification.warm_up, FEWEST_WARM_UP),
        ("--timed-steps", specification.timed_steps, 1),
    ):
        if value < least:
            raise GaplessError(f"{option}: at least {least} is needed, found {value}")
    if not 0 <= specification.seed < 1 << 31:
        raise GaplessError(f"--seed: 0 to 2**31 - 1 is needed, found {specification.seed}")
    if not (math.isfinite(specification.time_limit) and specification.time_limit > 0):
        raise GaplessError(
            f"--time-limit: more than 0 seconds is needed, found {specification.time_limit}"
        )
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingDependencyError(f"training needs {package}", "torch")
    if specification.device == "cuda":
        require_gpu()


def _parse_allocators(text: str) -> tuple[Allocator, ...]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in list(Allocator):
            raise GaplessError(
                f"--allocators: none is called {name!r}; {near_names(name, map(str, Allocator))}"
            )
    if len(set(names)) < len(names):
        raise GaplessError(f"--allocators: each once is enough, found {text!r}")
    return tuple(map(Allocator, names))


def _progress(specification: RunSpecification, seconds: float | None) -> None:
    if seconds is None:
        typer.echo(f"{specification.label} ... ", err=True, nl=False)
    else:
        typer.echo(f"{seconds:.1f} s", err=True)


def _print(specification: RunSpecification, comparison: AllocatorComparison, as_json: bool) -> None:
    if as_json:
        standard_output.write(json.dumps(study_record(specification, comparison), indent=1) + "\n")
        return
    below = [f"{note}\n" for note in notes(comparison)]
    if comparison.timings:
        standard_output.write_table(study_table(comparison), below="".join([f"{UNITS}\n", *below]))
    else:
        standard_output.write("".join(below))


main = app.run

if __name__ == "__main__":
    main()
