"""What one worker is to do, as it travels to it."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from instances.extract.eager.trace_settings import TraceSettings
from instances.extract.step_settings import command_option


class Allocator(enum.StrEnum):
    """Who serves the memory of a process."""

    DEFAULT = "default"
    EXPANDABLE = "expandable"
    PLANNED = "planned"
    GMLAKE = "gmlake"
    VPMM = "vpmm"


# A plan, and what it is judged by everywhere.
JUDGED = (Allocator.DEFAULT, Allocator.EXPANDABLE, Allocator.PLANNED)
# Who take each request as it comes: run where somebody asks for them.
ONLINE = (Allocator.GMLAKE, Allocator.VPMM)


class Purpose(enum.StrEnum):
    """What a process is run for."""

    CHECK = "check"
    TIME = "time"


@dataclass(frozen=True)
class RunSpecification:
    """What one worker is to do."""

    # Digests of everything computed, with deterministic algorithms; or time and memory, without.
    purpose: Purpose
    allocator: Allocator
    # Name of a registered model.
    model: str
    # ``batch``, ``seq``, ``image``, ``layers``, ``checkpointing``, where not the model's own.
    shape: dict[str, int | bool] = field(default_factory=dict)
    # The loop; its steps are those that are checked.
    settings: TraceSettings = field(default_factory=TraceSettings)
    # Steps before the timed ones, and the timed ones.
    warm_up: int = 6
    timed_steps: int = 30
    # Of weights, inputs and dropout.
    seed: int = 0
    # Who plans, and for how many seconds at most.
    planner: str = "auto"
    time_limit: float = 10.0
    # ``"cuda"``, or for tests ``"cpu"``, which has no allocator to choose.
    device: str = "cuda"
    # Files of the user's that register models.
    models: tuple[str, ...] = ()
    # Whether an operator without a deterministic algorithm ends a check.
    strict: bool = True

    @property
    def label(self) -> str:
        """What progress and errors call it."""
        return f"{self.purpose} {self.allocator}"

    @property
    def command(self) -> str:
        """The command line that runs its model and loop under every allocator."""
        return f"python -m gpu_runtime.train {self.arguments}"

    @property
    def arguments(self) -> str:
        """Its model and loop, as commands take them.

        Without what is as by default, and without what does not change a step: how many are run,
        the seed, who plans.
        """
        settings, defaults = self.settings, TraceSettings()
        files = [f"--models {file}" for file in self.models]
        given: dict[str, object] = dict(self.shape)
        for name in ("microbatches", "precision", "optimizer"):
            if getattr(settings, name) != getattr(defaults, name):
                given[name] = getattr(settings, name)
        options = [command_option(name, value) for name, value in given.items()]
        return " ".join([self.model, *options, *files])

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunSpecification:
        """Read what :meth:`to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["purpose"] = Purpose(fields["purpose"])
        fields["allocator"] = Allocator(fields["allocator"])
        fields["models"] = tuple(fields["models"])
        fields["settings"] = TraceSettings(**fields["settings"])
        return cls(**fields)
