"""One run of a program in this process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext

from torch import nn

from evaluation.benchmarks.programs.program_list import PROGRAMS
from evaluation.benchmarks.programs.program_result import ProgramResult
from evaluation.benchmarks.programs.program_specification import ProgramSpecification
from evaluation.benchmarks.programs.scene import Scene
from gpu_runtime.training.allocator_probe import AllocatorProbe
from gpu_runtime.training.check_run import deterministic, digests, exact
from gpu_runtime.training.run_specification import Purpose
from gpu_runtime.training.timed_run import run_environment
from planners.errors import GaplessError


def run_program(
    specification: ProgramSpecification,
    probe: AllocatorProbe,
    wait_for_turn: Callable[[], None] = lambda: None,
) -> ProgramResult:
    """Run a program to its end, turn by turn.

    A check has deterministic algorithms, attention written out, and notes what has none: whether
    that changed any bits is seen by PyTorch's own allocators differing too.
    """
    train = PROGRAMS[specification.program].load()
    is_check = specification.purpose is Purpose.CHECK
    with deterministic(strict=False) if is_check else nullcontext() as undetermined:
        scene = Scene(specification, probe, wait_for_turn)
        model = train(scene)
        if scene.taken != specification.steps:
            raise GaplessError(
                f"program {specification.program}: {specification.steps} steps are needed, "
                f"found {scene.taken}"
            )
        return ProgramResult(
            step_seconds=scene.step_seconds,
            peaks=scene.peaks,
            fallback_share=scene.fallback_share,
            losses=tuple(map(exact, scene.losses)) if is_check else (),
            parameters=digest(model) if is_check else "",
            undetermined=tuple(undetermined()) if undetermined else (),
            streams=scene.streams,
            environment=run_environment(specification.device),
        )


def digest(model: nn.Module) -> str:
    """Return one SHA-256 of all parameters; of sharded ones, of this process's part."""
    local = (
        (name, parameter.to_local() if hasattr(parameter, "to_local") else parameter)
        for name, parameter in model.named_parameters()
    )
    return hashlib.sha256("".join(digests(local).values()).encode()).hexdigest()
