"""Every program by name: what it does, and the memory that it may need under plans."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gpu_runtime.training.training_run import Allocator, Purpose, Scale, TrainingRun
from planners.errors import GaplessError, MissingDependencyError, near_names
from planners.text.plain_text import shown

SCRIPTS = "scripts"
FILE = Path(__file__).with_name("programs.toml")
# Configurations of models that are not registered; and a user's file, by which `gapless fit`
# predicts each program.
CONFIGURATIONS = Path(__file__).with_name("configs")
ALONE = Path(__file__).with_name("alone.py")

# Steps of a check after the warm-up, in which kinds of step are learnt.
CHECKED_STEPS = 4
# Profiled steps of a program on several GPUs, whose streams wait for each other.
PROFILED_STEPS = 2
# Steps of a run whose memory is predicted and measured, from the first one on.
FIT_STEPS = 11


class Steps(enum.StrEnum):
    """How much the requests of a program vary from step to step."""

    FEW_KINDS = "steps of a few kinds"
    RANDOM_LENGTHS = "random lengths"
    DYNAMIC = "sizes of the moment"

    @property
    def most_over_live(self) -> float:
        """The share by which planned memory may exceed live memory."""
        return {Steps.FEW_KINDS: 0.01, Steps.RANDOM_LENGTHS: 0.05, Steps.DYNAMIC: 0.10}[self]


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A training script, to be run in processes of its own."""

    name: str
    sentence: str
    # ``module:function`` in this package; the function trains in a scene and returns the model.
    entry: str
    # A wildcard chooses among the programs of one group.
    group: str = SCRIPTS
    steps: Steps = Steps.FEW_KINDS
    gpus: int = 1
    # Steps before the timed ones. Programs of random lengths need more, to meet all lengths.
    warm_up: int = 10
    # True if PyTorch keeps CUDA graphs in a private pool, whose bytes it does not count as live.
    has_private_pool: bool = False
    # Packages that the program imports beside PyTorch and transformers.
    packages: tuple[str, ...] = ()

    def require_packages(self) -> None:
        """Raise an error of one line if a package is not installed."""
        for package in self.packages:
            if find_spec(package) is None:
                raise MissingDependencyError(f"program {self.name} needs {package}", "programs")

    def check_run(self, scale: Scale = Scale.QUICK, device: str = "cuda") -> TrainingRun:
        """Return a check. Few layers suffice: equal bits do not depend on their number."""
        return self._run(Purpose.CHECK, scale, 1, CHECKED_STEPS, 0, device)

    def timed_run(
        self, scale: Scale, turns: int, turn_steps: int, device: str = "cuda"
    ) -> TrainingRun:
        """Return a run that measures time."""
        profiled = PROFILED_STEPS if self.gpus > 1 else 0
        return self._run(Purpose.TIME, scale, turns, turn_steps, profiled, device)

    def fit_run(self, batch: int | None = None, device: str = "cuda") -> TrainingRun:
        """Return a run whose memory is predicted and measured."""
        return replace(self.timed_run(Scale.FULL, 0, 0, device), warm_up=FIT_STEPS, batch=batch)

    def _run(
        self, purpose: Purpose, scale: Scale, turns: int, turn_steps: int, profiled: int,
        device: str,
    ) -> TrainingRun:  # fmt: skip
        return TrainingRun(
            purpose=purpose,
            allocator=Allocator.DEFAULT,
            program=self.name,
            entry=f"evaluation.programs.{self.entry}",
            scale=scale,
            warm_up=self.warm_up,
            turns=turns,
            turn_steps=turn_steps,
            profiled_steps=profiled,
            device=device,
            # Most programs have an operator without a deterministic algorithm.
            strict=False,
            ranks=self.gpus,
        )


class _ProgramFile(msgspec.Struct, forbid_unknown_fields=True):
    program: list[Program]


PROGRAMS = {
    program.name: program
    for program in msgspec.toml.decode(FILE.read_bytes(), type=_ProgramFile).program
}


def find_programs(patterns: Sequence[str], group: str = SCRIPTS, gpus: int = 1) -> list[Program]:
    """Return the programs of a group on ``gpus`` GPUs that match a wildcard, in file order."""
    of_group = [its for its in PROGRAMS.values() if its.group == group and its.gpus == gpus]
    names = [its.name for its in of_group]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise GaplessError(
                f"no program of the group {shown(group)} on {gpus} GPU(s) is called "
                f"{shown(pattern)}; {near_names(pattern, names or PROGRAMS)}"
            )
    return [its for its in of_group if any(fnmatchcase(its.name, each) for each in patterns)]
