"""What one process is to train and measure, as it travels to it."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from gpu_runtime.allocator.book_planner import Planning
from instances.extract.eager.trace_settings import TraceSettings
from instances.extract.step_settings import command_option
from planners.errors import InstanceError, near_names


class Allocator(enum.StrEnum):
    """Who serves the memory of a process."""

    DEFAULT = "default"
    EXPANDABLE = "expandable"
    PLANNED = "planned"
    GMLAKE = "gmlake"
    VPMM = "vpmm"


# PyTorch's own two, and a plan, which is judged by them everywhere.
NATIVE = (Allocator.DEFAULT, Allocator.EXPANDABLE)
JUDGED = (*NATIVE, Allocator.PLANNED)
# Online allocators, which take each request as it comes: run where somebody asks for them.
ONLINE = (Allocator.GMLAKE, Allocator.VPMM)


class Purpose(enum.StrEnum):
    """What a process is run for."""

    # Digests of everything that is computed, with deterministic algorithms.
    CHECK = "check"
    # Time and memory.
    TIME = "time"


class Scale(enum.StrEnum):
    """How large the model of a program is."""

    FULL = "full"
    # As wide, with a third of the layers.
    QUICK = "quick"
    # For a processor: of the same structure, with next to no work.
    TINY = "tiny"


# Options of a training, as on the command line, and what their values are.
_SHAPE: dict[str, type] = {
    "batch": int,
    "seq": int,
    "image": int,
    "layers": int,
    "checkpointing": bool,
}
_LOOP: dict[str, type] = {"microbatches": int, "precision": str, "optimizer": str}


class RegisteredModel(msgspec.Struct, frozen=True):
    """A model of the registry and its training loop, which is a program too."""

    name: str
    # ``batch``, ``seq``, ``image``, ``layers``, ``checkpointing``, where not the model's own.
    shape: dict[str, int | bool] = {}
    # The loop; how many steps it has is said by the run.
    settings: TraceSettings = TraceSettings()
    # Files of the user's that register models.
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
        """Model and loop, as commands take them, without what is as by default."""
        defaults = TraceSettings()
        given: dict[str, object] = dict(self.shape)
        for name in ("microbatches", "precision", "optimizer"):
            if getattr(self.settings, name) != getattr(defaults, name):
                given[name] = getattr(self.settings, name)
        options = [command_option(name, value) for name, value in given.items()]
        return " ".join([self.name, *options, *(f"--models {file}" for file in self.files)])


class TrainingRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is to do."""

    purpose: Purpose
    allocator: Allocator
    # What people call it.
    program: str
    # ``module:function``: trains in a scene and returns the module that it trained.
    entry: str
    # Of a program that is made of one.
    model: RegisteredModel | None = None
    scale: Scale = Scale.FULL
    # Steps before the first turn.
    warm_up: int = 10
    # In each so many steps are timed, after one that is not: a device that was idle is slower.
    turns: int = 1
    turn_steps: int = 4
    # Of which the kernels are noted after the last turn, likewise after one that is not.
    profiled_steps: int = 0
    # Of weights, inputs and dropout.
    seed: int = 0
    # Who plans, for how many seconds at most, and whether a step waits for the plan.
    planner: str = "auto"
    time_limit: float = 10.0
    planning: Planning = "beside"
    # ``"cuda"``, or for tests ``"cpu"``, which has no allocator to choose.
    device: str = "cuda"
    # Whether an operator without a deterministic algorithm ends a check.
    strict: bool = True
    # After so many, a part of it is over: what comes before the first turn, a turn, the rest.
    limit_seconds: float | None = None
    # Which of how many processes it is, each with a device of its own.
    rank: int = 0
    ranks: int = 1

    @property
    def timed_until(self) -> int:
        """Steps to the end of the last turn."""
        return self.warm_up + self.turns * (1 + self.turn_steps)

    @property
    def steps(self) -> int:
        """All steps."""
        return self.timed_until + (1 + self.profiled_steps if self.profiled_steps else 0)

    @property
    def label(self) -> str:
        """What progress and errors call it."""
        return f"{self.purpose} {self.allocator}"

    def to_json(self) -> str:
        """Return it as one line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> TrainingRun:
        """Read what :meth:`to_json` wrote."""
        return msgspec.json.decode(text, type=cls)


def model_run(
    purpose: Purpose, model: RegisteredModel, allocator: Allocator = Allocator.DEFAULT
) -> TrainingRun:
    """Return a run of a registered model; a check has the steps of its settings, none warm up."""
    run = TrainingRun(
        purpose=purpose,
        allocator=allocator,
        program=model.name,
        entry="gpu_runtime.training.model_program:train",
        model=model,
        # Few steps are compared, and all that are timed are to be the plan's.
        planning="between",
    )
    if purpose is Purpose.CHECK:
        return msgspec.structs.replace(run, warm_up=model.settings.steps, turns=0)
    return run
