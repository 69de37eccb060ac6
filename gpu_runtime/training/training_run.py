"""The specification of one training process, as it travels to the process."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from gpu_runtime.allocator.step_planner import Planning
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.step_settings import command_option
from planners.errors import InstanceError, near_names


class Allocator(enum.StrEnum):
    """The allocators that a training can run under; records and grids name them so."""

    DEFAULT = "default"
    EXPANDABLE = "expandable"
    PLANNED = "planned"
    # As in replays: no moves below the shadow, or as many as save memory.
    PLANNED_NO_MOVES = "planned:moves=none"
    PLANNED_ALL_MOVES = "planned:moves=all"
    GMLAKE = "gmlake"
    VPMM = "vpmm"
    STWEAVER = "stweaver"


# PyTorch's own two modes, and planned memory, which is compared with both everywhere.
NATIVE = (Allocator.DEFAULT, Allocator.EXPANDABLE)
JUDGED = (*NATIVE, Allocator.PLANNED)
# Online allocators of the core; a training runs them only if a user names them.
ONLINE = (Allocator.GMLAKE, Allocator.VPMM, Allocator.STWEAVER)


class Purpose(enum.StrEnum):
    # Digests of everything that is computed, with deterministic algorithms.
    CHECK = "check"
    # Time and memory.
    TIME = "time"


class Scale(enum.StrEnum):
    """The size of a program's model."""

    FULL = "full"
    # Full width, with a third of the layers.
    QUICK = "quick"
    # For a processor: the same structure, with little work.
    TINY = "tiny"


# Options of a training on the command line, and the types of their values.
_SHAPE: dict[str, type] = {
    "batch": int,
    "seq": int,
    "image": int,
    "layers": int,
    "checkpointing": bool,
}
_LOOP: dict[str, type] = {"microbatches": int, "precision": str, "optimizer": str}


class RegisteredModel(msgspec.Struct, frozen=True):
    """A registered model and its training loop."""

    name: str
    # Settings that differ from the model's own: batch, seq, image, layers, checkpointing.
    shape: dict[str, int | bool] = {}
    # Settings of the loop; the run says how many steps it has.
    settings: TraceSettings = TraceSettings()
    # The user's files that register models.
    files: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, steps: int = TraceSettings().steps) -> RegisteredModel:
        """Read a model and its loop as commands take them, such as ``bert-base --batch 32``."""
        name, *words = text.split() or [""]
        given: dict[str, Any] = {}
        while words:
            option = words.pop(0)
            key = option.removeprefix("--")
            kind = {**_SHAPE, **_LOOP}.get(key)
            if kind is None or key == option:
                near = near_names(option, [f"--{known}" for known in (*_SHAPE, *_LOOP)])
                raise InstanceError(f"training {text!r}: no option is called {option!r}; {near}")
            if kind is not bool and (not words or (kind is int and not words[0].isdecimal())):
                needed = "a whole number" if kind is int else "a name"
                found = repr(words[0]) if words else "nothing"
                raise InstanceError(
                    f"training {text!r}: {option}: {needed} is needed, found {found}"
                )
            given[key] = True if kind is bool else kind(words.pop(0))
        shape = {key: given.pop(key) for key in _SHAPE if key in given}
        return cls(name, shape, TraceSettings(steps, **given))

    @property
    def arguments(self) -> str:
        """Model and loop as commands take them, without default values."""
        defaults = TraceSettings()
        given: dict[str, object] = dict(self.shape)
        for name in ("microbatches", "precision", "optimizer"):
            if getattr(self.settings, name) != getattr(defaults, name):
                given[name] = getattr(self.settings, name)
        options = [command_option(name, value) for name, value in given.items()]
        return " ".join([self.name, *options, *(f"--models {file}" for file in self.files)])


class TrainingRun(msgspec.Struct, frozen=True, kw_only=True):
    purpose: Purpose
    allocator: Allocator
    # Name of the program in tables and messages.
    program: str
    # ``module:function``; the function trains in a scene and returns the trained module.
    entry: str
    # The model, if the program is made of a registered one.
    model: RegisteredModel | None = None
    scale: Scale = Scale.FULL
    # Rows of a batch of a program, where they are not its own; a model's shape has them.
    batch: int | None = None
    # The most bytes that PyTorch may take from the device.
    memory: int | None = None
    # Steps before the first turn.
    warm_up: int = 10
    # A turn is one step that is not timed, since an idle device starts slower, and `turn_steps`
    # timed steps after it.
    turns: int = 1
    turn_steps: int = 4
    # Steps after the last turn whose kernels are recorded. One step whose kernels are not used
    # comes before them.
    profiled_steps: int = 0
    # Seed of weights, inputs and dropout.
    seed: int = 0
    # The planner, the most seconds it may take, and whether a step waits for the plan.
    planner: str = "auto"
    time_limit: float = 10.0
    planning: Planning = "beside"
    # ``"cuda"``, or ``"cpu"`` for tests, where the allocator cannot be chosen.
    device: str = "cuda"
    # True if an operator without a deterministic algorithm ends a check.
    strict: bool = True
    # Time limit of each part: the steps before the first turn, a turn, the steps after the last.
    limit_seconds: float | None = None
    # Number of this process, and number of processes; each has a device of its own.
    rank: int = 0
    ranks: int = 1

    @property
    def timed_until(self) -> int:
        return self.warm_up + self.turns * (1 + self.turn_steps)

    @property
    def steps(self) -> int:
        return self.timed_until + (1 + self.profiled_steps if self.profiled_steps else 0)

    @property
    def label(self) -> str:
        return f"{self.purpose} {self.allocator}"

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> TrainingRun:
        return msgspec.json.decode(text, type=cls)


def model_run(
    purpose: Purpose, model: RegisteredModel, allocator: Allocator = Allocator.DEFAULT
) -> TrainingRun:
    """Return a run of a registered model; all steps of a check are warm-up."""
    run = TrainingRun(
        purpose=purpose,
        allocator=allocator,
        program=model.name,
        entry="gpu_runtime.training.model_program:train",
        model=model,
        # The program waits for its plan: a check compares few steps, and all timed steps are to be
        # served by the plan.
        planning="between",
    )
    if purpose is Purpose.CHECK:
        return msgspec.structs.replace(run, warm_up=model.settings.steps, turns=0)
    return run
