"""Planned memory in the Trainer of transformers."""

from __future__ import annotations

from typing import Any

from gpu_runtime.allocator.planned_memory import PlannedMemory
from gpu_runtime.integrations.callback_step import CallbackStep
from planners.errors import MissingDependencyError

try:
    from transformers import TrainerCallback, TrainingArguments
except ImportError as error:
    raise MissingDependencyError(
        f"planned memory in a Trainer needs transformers ({error})", "trainer"
    ) from None


class PlannedTrainerCallback(TrainerCallback):
    """Plans the memory of a ``transformers.Trainer``.

    A step has all work for one step of the optimizer: with gradient accumulation, all its batches.
    Evaluation, logging and saving are between steps.

    Parameters
    ----------
    memory
        The planned memory, installed or not. By default the callback makes one for the Trainer's
        device, as soon as the Trainer exists.

    Raises
    ------
    MissingDependencyError
        Transformers is not installed; raised by the import.
    """

    def __init__(self, memory: PlannedMemory | None = None) -> None:
        self._step = CallbackStep(memory)

    @property
    def memory(self) -> PlannedMemory:
        """The planned memory, for its report."""
        return self._step.memory

    def abandon_step(self) -> None:
        """End the step that an error or Ctrl-C has left.

        The Trainer reports neither. The callback notices at the next training or evaluation. Only a
        loop of your own that uses the same memory has to call this before it begins.
        """
        self._step.abandon()

    def on_init_end(self, args: TrainingArguments, *_: Any, **__: Any) -> None:
        self._step.install(args.device)

    def on_train_begin(self, args: TrainingArguments, *_: Any, **__: Any) -> None:
        """End a step that an earlier training left open."""
        # A callback that is added to a finished Trainer never saw the end of its construction.
        self._step.install(args.device)
        self._step.abandon()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._step.begin()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._step.end()

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """End a step that was cut short: the Trainer also stops between accumulated batches."""
        self._step.abandon()

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        """End a step that an error left open: evaluation never runs within a step."""
        self._step.abandon()
