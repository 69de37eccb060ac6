"""Planned memory in the Trainer of Lightning."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from gpu_runtime.allocator.planned_memory import PlannedMemory
from gpu_runtime.integrations.callback_step import CallbackStep
from planners.errors import MissingDependencyError

# Both names are packages of Lightning, and the classes of one are not those of the other.
LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def lightning_of_the_program() -> Any:
    """Return the package that the program has imported, else the first that is installed."""
    for name in sorted(LIGHTNING, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name)
        except ImportError as error:
            reason = error
    raise MissingDependencyError(f"planned memory in Lightning needs it ({reason})", "lightning")


if TYPE_CHECKING:
    from pytorch_lightning import Callback, Trainer
else:
    Callback = lightning_of_the_program().Callback


class PlannedLightningCallback(Callback):
    """Plans the memory of a Lightning ``Trainer``.

    A step is a batch. With ``accumulate_grad_batches`` some of them run the optimizer, and are
    another kind of step. Validation and saving are between steps.

    Parameters
    ----------
    memory
        The planned memory, installed or not. By default the callback makes one for the Trainer's
        device, before the model moves there.

    Raises
    ------
    MissingDependencyError
        Lightning is not installed; raised by the import.
    """

    def __init__(self, memory: PlannedMemory | None = None) -> None:
        self._step = CallbackStep(memory)

    @property
    def memory(self) -> PlannedMemory:
        """The planned memory, for its report."""
        return self._step.memory

    def setup(self, trainer: Trainer, *_: Any, **__: Any) -> None:
        """Install planned memory if the user has not; the model is not on its device yet."""
        self._step.install(trainer.strategy.root_device)

    def on_train_batch_start(self, *_: Any) -> None:
        self._step.begin()

    def on_train_batch_end(self, *_: Any) -> None:
        self._step.end()

    def on_train_epoch_end(self, *_: Any) -> None:
        """End a step whose batch made the module skip the rest of the epoch."""
        self._step.abandon()

    def on_exception(self, *_: Any) -> None:
        self._step.abandon()
