"""``python -m gpu_runtime.train``: train a model under a plan and under PyTorch's allocators."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import json
import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from gpu_runtime.training.comparison import (
    AllocatorComparison,
    check_bits,
    time_in_turns,
    under,
)
from gpu_runtime.training.comparison_report import (
    UNITS,
    notes,
    study_record,
    study_table,
)
from gpu_runtime.training.run_processes import waiting_run
from gpu_runtime.training.training_run import (
    JUDGED,
    Allocator,
    Purpose,
    RegisteredModel,
    TrainingRun,
    model_run,
)
from instances.extract.models import find_model
from instances.extract.models.model_registry import Models, register_own_models
from instances.extract.record.trace_settings import (
    Batch,
    Checkpointing,
    Image,
    Layers,
    Microbatches,
    Optimizer,
    Precision,
    Seq,
    TraceSettings,
    given,
)
from instances.extract.step_settings import StepSettings
from planners.command_line.ending import complain
from planners.command_line.starting import EXIT_ERROR
from planners.command_line.typer_frame import AsJson, CommandLine
from planners.errors import GaplessError, MissingDependencyError, near_names
from planners.processes import standard_output
from planners.registry import choose_one
from planners.text.progress_line import show_progress

EXIT_DIFFERENT = 1

# The plan is in force from the fourth step on; the caches of PyTorch are warm by then.
FEWEST_WARM_UP = 6
STEPS = 5

app = CommandLine()


@dataclass(frozen=True)
class _Options:
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model, such as bert-base.")]
    planner: Annotated[str, typer.Option(metavar="NAME", help="Planner.")] = "auto"
    steps: Annotated[
        int, typer.Option(help="Steps to compare bit by bit; the plan comes after three.")
    ] = STEPS
    timed_steps: Annotated[int, typer.Option(help="Steps to time.")] = 30
    warm_up: Annotated[int, typer.Option(help="Steps before the timed ones.")] = FEWEST_WARM_UP
    time_limit: Annotated[float, typer.Option(help="Most seconds of planning.")] = 10.0
    seed: Annotated[int, typer.Option(help="Seed of weights, inputs and dropout.")] = 0
    batch: Batch = None
    seq: Seq = None
    image: Image = None
    layers: Layers = None
    checkpointing: Checkpointing = None
    microbatches: Microbatches = None
    precision: Precision = None
    optimizer: Optimizer = None
    models: Models = None
    allocators: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Some of {', '.join(Allocator)}, in run order.")
    ] = ",".join(JUDGED)
    turns: Annotated[
        int,
        typer.Option(
            min=1,
            help="Rounds of timed steps; with several, all allocators hold memory at once.",
        ),
    ] = 1
    as_json: AsJson = False

    def __post_init__(self) -> None:
        if self.timed_steps % self.turns:
            raise GaplessError(
                f"--turns: {self.timed_steps} timed steps are to be split evenly, found "
                f"{self.turns}"
            )

    def runs(self) -> tuple[TrainingRun, TrainingRun, RegisteredModel]:
        """Return the run that checks bits, the one that takes times, and their model."""
        shape, loop = (
            given(**{name: getattr(self, name) for name in names})
            for names in (
                ("batch", "seq", "image", "layers", "checkpointing"),
                ("microbatches", "precision", "optimizer"),
            )
        )
        files = tuple(map(str, self.models or ()))
        its = RegisteredModel(self.model, shape, TraceSettings(self.steps, **loop), files)
        check, timed = (
            replace(
                model_run(purpose, its),
                seed=self.seed, planner=self.planner, time_limit=self.time_limit,
            )
            for purpose in (Purpose.CHECK, Purpose.TIME)
        )  # fmt: skip
        turns, turn_steps = self.turns, self.timed_steps // self.turns
        timed = replace(timed, warm_up=self.warm_up, turns=turns, turn_steps=turn_steps)
        return check, timed, its


@app.command_of(_Options, "train")
def train_model(options: _Options) -> None:
    """Train on the GPU under a plan: the same bits, how much memory, how long.

    Every allocator has processes of its own. Exits with 1 if losses, gradients or parameters
    differ or the plan served no step, and with 2 after an error.
    """
    check, timed, its = options.runs()
    chosen = _parse_allocators(options.allocators)
    require_sound(timed, its)
    findings = AllocatorComparison()
    try:
        _compare(check, timed, chosen, findings)
    except KeyboardInterrupt:
        _print(timed, its, findings, options.as_json)
        raise
    _print(timed, its, findings, options.as_json)
    for label, message in findings.failures.items():
        complain(GaplessError(f"{label}: {message}"))
    code = EXIT_ERROR if findings.failures else 0 if findings.passed else EXIT_DIFFERENT
    raise typer.Exit(code)


def _compare(
    check: TrainingRun,
    timed: TrainingRun,
    allocators: tuple[Allocator, ...],
    findings: AllocatorComparison,
) -> None:
    """Check bits, then take times; an interrupt keeps the findings so far."""
    check_bits(under(allocators, check), findings, _progress, start=waiting_run)
    runs = under(allocators, timed)
    # Without turns the runs follow one another, so that each may have all memory.
    groups = [runs] if timed.turns > 1 else [[run] for run in runs]
    for answers in time_in_turns(groups, _progress, start=waiting_run):
        for run, answer in answers:
            findings.keep(run, answer)


def require_sound(run: TrainingRun, model: RegisteredModel) -> None:
    """Raise the errors that every worker would raise, before any worker is started."""
    register_own_models(map(Path, model.files))
    settings = find_model(model.name).settings(
        **model.shape, precision=model.settings.weights_precision
    )
    if settings.ranks != StepSettings.ranks:
        # Building such a model takes minutes, and its first step fails.
        raise GaplessError(
            f"model {model.name}: training computes models of one rank, found {settings.ranks} "
            f"ranks; a trace of it needs no GPU: python -m instances.extract trace {model.name}"
        )
    choose_one(run.planner)
    for option, value, least in (
        ("--warm-up", run.warm_up, FEWEST_WARM_UP),
        ("--timed-steps", run.turn_steps, 1),
    ):
        if value < least:
            raise GaplessError(f"{option}: at least {least} is needed, found {value}")
    if not 0 <= run.seed < 1 << 31:
        raise GaplessError(f"--seed: 0 to 2**31 - 1 is needed, found {run.seed}")
    if not (math.isfinite(run.time_limit) and run.time_limit > 0):
        raise GaplessError(f"--time-limit: more than 0 seconds is needed, found {run.time_limit}")
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingDependencyError(f"training needs {package}", "torch")


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


def _progress(run: TrainingRun) -> None:
    show_progress(f"{run.program}, {run.label}")


def _print(
    run: TrainingRun, model: RegisteredModel, findings: AllocatorComparison, as_json: bool
) -> None:
    show_progress("")
    if as_json:
        record = study_record(run, model, findings)
        standard_output.write(json.dumps(record, indent=1) + "\n")
        return
    below = [f"{note}\n" for note in notes(findings)]
    if findings.timings:
        standard_output.write_table(study_table(findings), below="".join([f"{UNITS}\n", *below]))
    else:
        standard_output.write("".join(below))


main = app.run

if __name__ == "__main__":
    main()
