"""Grids of training: which programs and models are trained, and under which allocators."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from evaluation.programs.program_list import SCRIPTS, Program, find_programs
from gpu_runtime.training.comparison import under
from gpu_runtime.training.training_run import (
    JUDGED,
    Allocator,
    Purpose,
    RegisteredModel,
    Scale,
    TrainingRun,
    model_run,
)
from instances.extract.models import find_model
from planners.errors import InstanceError
from planners.model.problem import Scalar
from planners.text.plain_text import shown

# Warm-up steps. A plan serves from the fourth step on, and PyTorch's caches are full by then.
MODEL_WARM_UP = 6

Number = Annotated[
    int, msgspec.Meta(ge=1, le=10_000, description="a whole number from 1 to 10,000")
]


class TrainingGrid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every program and model under every allocator, whose timed turns alternate."""

    # Names or wildcards of programs, among those of ``group`` that need ``gpus`` GPUs.
    programs: tuple[str, ...] = ()
    group: str = SCRIPTS
    gpus: Annotated[int, msgspec.Meta(ge=1, le=4)] = 1
    # Trainings of registered models, each as on the command line; and the steps that are compared.
    models: tuple[str, ...] = ()
    model_steps: Number = 5
    # The bits of the first allocator are the reference for all others.
    allocators: tuple[Allocator, ...] = JUDGED
    scale: Scale = Scale.FULL
    # Few layers suffice for a check: equal bits do not depend on their number.
    checked_scale: Scale = Scale.QUICK
    turns: Number = 5
    turn_steps: Number = 4
    # Programs that are warmed up at the same time, and checks that run at the same time.
    programs_at_once: Number = 1
    checks_at_once: Number = 3
    # Time limit of a part of a run, such as a warm-up that compiles kernels beside two others.
    seconds: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 240.0
    # Tests name a CPU, which has no choice of allocators.
    device: str = "cuda"

    def __post_init__(self) -> None:
        if not self.programs and not self.models:
            raise ValueError("a list of programs, or of models, is needed, found neither")
        if not self.allocators or len(set(self.allocators)) < len(self.allocators):
            raise ValueError("allocators, each once, are needed")
        for model in self.registered:
            weights = model.settings.weights_precision
            find_model(model.name).settings(**model.shape, precision=weights)

    @property
    def registered(self) -> list[RegisteredModel]:
        """The trainings of models."""
        return [RegisteredModel.read(text, self.model_steps) for text in self.models]


@dataclass(frozen=True)
class TrainedProgram:
    """One program of a grid, with its runs under every allocator."""

    name: str
    checks: Sequence[TrainingRun]
    timed: Sequence[TrainingRun]
    grid: TrainingGrid
    # Its entry in the list of programs; None for a registered model.
    program: Program | None = None

    @property
    def words(self) -> dict[str, Scalar]:
        """The texts that its records have beside figures."""
        its = self.program
        if its is None:
            return {"sentence": f"`python -m gpu_runtime.train {self.name}`"}
        return {
            "sentence": its.sentence,
            "steps": str(its.steps),
            "most_over_live": its.steps.most_over_live,
            "private_pool": its.has_private_pool,
        }

    @property
    def digest(self) -> str:
        """Digest of everything that decides its results and its cost, except the allocator."""
        runs = under([Allocator.DEFAULT], self.checks[0]) + under(
            [Allocator.DEFAULT], self.timed[0]
        )
        asked = "".join(run.to_json() for run in runs)
        return "sha256:" + hashlib.sha256(asked.encode()).hexdigest()

    def only(self, allocators: Sequence[Allocator]) -> TrainedProgram:
        """Return the program under some of its allocators."""
        return TrainedProgram(
            self.name,
            [run for run in self.checks if run.allocator in allocators],
            [run for run in self.timed if run.allocator in allocators],
            self.grid,
            self.program,
        )


@dataclass(frozen=True)
class TrainedRun:
    """A program under one of its allocators, as a run of a study."""

    program: TrainedProgram
    allocator: Allocator

    @property
    def key(self) -> str:
        """The name of the run, unique within its study."""
        return f"{self.program.name}/training/{self.allocator}"

    @property
    def asked(self) -> str:
        """Digest of everything that decides its results and its cost, except the allocator."""
        return self.program.digest

    @property
    def file(self) -> Path | None:
        """None: a training reads no file of an instance."""
        return None

    def changed_since(self, _record: object) -> str:
        """Name what has changed since a record of another question was made."""
        return f"program {self.program.name}"


def trained_programs(grids: Sequence[TrainingGrid]) -> list[TrainedProgram]:
    """Return the programs of grids; no two may have one name."""
    found: dict[str, TrainedProgram] = {}
    for grid in grids:
        its = [
            _of_program(program, grid)
            for program in find_programs(grid.programs, grid.group, grid.gpus)
        ]
        its += [_of_model(model, grid) for model in grid.registered]
        for each in its:
            if each.name in found:
                raise InstanceError(
                    f"field training: {shown(each.name)} is asked for twice; take it out once"
                )
            found[each.name] = each
    return list(found.values())


def _of_program(program: Program, grid: TrainingGrid) -> TrainedProgram:
    check = program.check_run(grid.checked_scale, grid.device)
    timed = program.timed_run(grid.scale, grid.turns, grid.turn_steps, grid.device)
    return _under_all(program.name, check, timed, grid, program)


def _of_model(model: RegisteredModel, grid: TrainingGrid) -> TrainedProgram:
    check, timed = (model_run(purpose, model) for purpose in (Purpose.CHECK, Purpose.TIME))
    timed = replace(timed, warm_up=MODEL_WARM_UP, turns=grid.turns, turn_steps=grid.turn_steps)
    return _under_all(model.arguments, check, timed, grid)


def _under_all(
    name: str,
    check: TrainingRun,
    timed: TrainingRun,
    grid: TrainingGrid,
    program: Program | None = None,
) -> TrainedProgram:
    checks, timings = (
        under(grid.allocators, replace(run, device=grid.device, limit_seconds=grid.seconds))
        for run in (check, timed)
    )
    return TrainedProgram(name, checks, timings, grid, program)
