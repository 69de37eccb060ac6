"""What one process does with a program, as it travels to it."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass
from typing import Any

from gpu_runtime.training.run_specification import Allocator, Purpose


class Scale(enum.StrEnum):
    """How large the model of a program is."""

    FULL = "full"
    # As wide, with a third of the layers.
    QUICK = "quick"
    # For a processor: of the same structure, with next to no work.
    TINY = "tiny"


@dataclass(frozen=True)
class ProgramSpecification:
    """What one process does."""

    # Bits, with deterministic algorithms; or time and memory, without.
    purpose: Purpose
    allocator: Allocator
    program: str
    scale: Scale = Scale.FULL
    # Steps before the first turn.
    warm_up: int = 10
    # In each so many steps are timed, after one that is not: what has been idle is cold.
    turns: int = 5
    turn_steps: int = 4
    # Of which the kernels are noted after the last turn, likewise after a cold one.
    profiled_steps: int = 0
    # Of weights, inputs and dropout.
    seed: int = 0
    # ``"cuda"``, or for tests ``"cpu"``, which has no allocator to choose.
    device: str = "cuda"
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
        return f"{self.program}, {self.purpose} {self.allocator}"

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ProgramSpecification:
        """Read what :meth:`to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["purpose"] = Purpose(fields["purpose"])
        fields["allocator"] = Allocator(fields["allocator"])
        fields["scale"] = Scale(fields["scale"])
        return cls(**fields)
