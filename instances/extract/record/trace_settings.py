"""The settings of a trace, checked once, and the options that command lines share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from planners.errors import InstanceError, near_names

AUTOCAST_BFLOAT16 = "autocast-bfloat16"
AUTOCAST_BFLOAT16_WEIGHTS = "autocast-bfloat16-weights"
PRECISIONS = (AUTOCAST_BFLOAT16, AUTOCAST_BFLOAT16_WEIGHTS, "float32", "bfloat16")
LOOP_OPTIMIZERS = ("adamw", "sgd")


@dataclass(frozen=True)
class TraceSettings:
    """The settings of a trace of an eager training loop."""

    # Iterations. The first makes the optimizer's state, so the second is the first steady one.
    steps: int = 3
    # Forward and backward passes of an iteration, whose gradients add up.
    microbatches: int = 1
    # ``"autocast-bfloat16"``, weights in float32 and CUDA's casts around them; the same casts
    # around weights in bfloat16; or weights and all in ``"float32"`` or ``"bfloat16"``.
    precision: str = AUTOCAST_BFLOAT16
    # ``"adamw"``, or ``"sgd"`` with momentum, in the implementation that PyTorch chooses on CUDA
    # (``foreach``).
    optimizer: str = "adamw"

    def __post_init__(self) -> None:
        for name in ("steps", "microbatches"):
            if getattr(self, name) < 1:
                raise InstanceError(f"setting {name}: at least 1, found {getattr(self, name)}")
        for name, allowed in (("precision", PRECISIONS), ("optimizer", LOOP_OPTIMIZERS)):
            value = getattr(self, name)
            if value not in allowed:
                raise InstanceError(
                    f"setting {name}: no {name} is called {value!r}; {near_names(value, allowed)}"
                )

    @property
    def weights_precision(self) -> str:
        """The dtype of the weights."""
        if self.precision == AUTOCAST_BFLOAT16:
            return "float32"
        return "bfloat16" if self.is_autocast else self.precision

    @property
    def is_autocast(self) -> bool:
        """Return True if forward passes run under CUDA's autocast."""
        return self.precision in (AUTOCAST_BFLOAT16, AUTOCAST_BFLOAT16_WEIGHTS)


Batch = Annotated[int | None, typer.Option(help="Sequences or images in a microbatch.")]
Seq = Annotated[int | None, typer.Option(help="Tokens in a sequence, or samples of a recording.")]
Image = Annotated[int | None, typer.Option(help="Height and width of an image.")]
Layers = Annotated[int | None, typer.Option(help="Layers of the model.")]
Checkpointing = Annotated[
    bool | None,
    typer.Option("--checkpointing/--no-checkpointing", help="Recompute activations by layer."),
]
Selective = Annotated[
    bool | None,
    typer.Option("--selective", help="With --checkpointing: keep matrix products and attention."),
]
Lora = Annotated[
    str | None,
    typer.Option(metavar="r=16,...", help="Train weights that peft adds, by its LoraConfig."),
]
Microbatches = Annotated[
    int | None,
    typer.Option(help="Forward and backward passes for each step of the optimizer; 1 by default."),
]
Precision = Annotated[
    str | None,
    typer.Option(help=f"{AUTOCAST_BFLOAT16}, the default, or {', '.join(PRECISIONS[1:])}."),
]
Optimizer = Annotated[str | None, typer.Option(help="adamw, the default, or sgd.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="K=V", help="Parameter of the function FILE.py:FUNCTION; repeatable."
    ),
]

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- WORD...]", help="The arguments of your own FILE.py on its command line."
    ),
]

Value = TypeVar("Value")


def given(**options: Value | None) -> dict[str, Value]:
    """Return the options that are not left to the model."""
    return {option: value for option, value in options.items() if value is not None}
