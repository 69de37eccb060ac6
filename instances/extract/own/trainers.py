"""Trainers of libraries: as many steps as are traced and one evaluation, and nothing is written."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest import mock

# The module and the name of each trainer's class.
_TRANSFORMERS = ("transformers.trainer", "Trainer")
_LIGHTNING = (
    ("pytorch_lightning.trainer.trainer", "Trainer"),
    ("lightning.pytorch.trainer.trainer", "Trainer"),
)
_LIGHTNING_MODULE = "LightningModule"
# Lightning's callbacks that write files or to the terminal.
_WRITES = ("checkpoint", "progress", "summary", "lr_monitor", "device_stats")
# The methods of a Trainer of transformers that write files, and its callbacks that show progress.
_SAVES = ("save_model", "save_state", "save_metrics", "_save_checkpoint", "push_to_hub")
_SHOWS = ("ProgressCallback", "PrinterCallback", "NotebookProgressCallback")


def is_trainer(value: object) -> bool:
    """Return True of what :func:`train` takes.

    That is a ``Trainer`` of transformers, a Lightning module with its loader, or a pair of a
    Lightning trainer and its module.
    """
    if isinstance(value, (tuple, list)):
        return len(value) == 2 and any(_is_a(value[0], *one) for one in _LIGHTNING)
    return _is_a(value, *_TRANSFORMERS) or _lightning_of(value) is not None


def train(value: Any) -> None:
    """Train with the object that a user's function returned."""
    if isinstance(value, (tuple, list)):
        trainer, module = value
        trainer.fit(module)
    elif _is_a(value, *_TRANSFORMERS):
        value.train()
    else:
        made: Any = import_module(_lightning_of(value) or "")
        made.Trainer(accelerator="gpu", devices=1, logger=False).fit(value)


@contextmanager
def short_trainings(source: str, steps: int) -> Iterator[None]:
    """Within this context trainers that a file names make few steps, and nothing is saved."""
    import torch

    with ExitStack() as stack:

        def put(owner: Any, name: str, value: object) -> None:
            stack.enter_context(mock.patch.object(owner, name, value))

        put(torch, "save", _nothing)
        if find_spec("accelerate"):
            # accelerate keeps the device that its process first asked for.
            states: Any = import_module("accelerate.state")
            for kind in (states.PartialState, states.AcceleratorState, states.GradientState):
                stack.enter_context(mock.patch.dict(kind._shared_state, clear=True))
        if find_spec("safetensors"):
            for name in ("save_file", "save_model"):
                put(import_module("safetensors.torch"), name, _nothing)
        if "transformers" in source:
            models: Any = import_module("transformers")
            put(models.PreTrainedModel, "save_pretrained", _nothing)
            put(models.PreTrainedTokenizerBase, "save_pretrained", _nothing)
            if "Trainer" in source:
                for name in _SAVES:
                    put(models.Trainer, name, _nothing)
                # Making one makes its folder.
                put(models.Trainer, "__init__", _without_folders(models.Trainer.__init__))
                put(models.Trainer, "train", _few_steps(models.Trainer.train, steps))
        if "accelerate" in source:
            accelerator: Any = import_module("accelerate").Accelerator
            for name in ("save_state", "save_model", "save"):
                put(accelerator, name, _nothing)
        for module, name in _LIGHTNING if "lightning" in source else ():
            if find_spec(module.partition(".")[0]):
                trainer: Any = getattr(import_module(module), name)
                put(trainer, "save_checkpoint", _nothing)
                put(trainer, "fit", _few_batches(trainer.fit, steps))
        yield


def _few_steps(train: Callable[..., Any], steps: int) -> Callable[..., Any]:
    def run(trainer: Any, *_: object, **__: object) -> Any:
        settings = trainer.args
        settings.max_steps = steps
        settings.disable_tqdm = True
        settings.load_best_model_at_end = settings.push_to_hub = False
        for name in ("eval", "save", "logging"):
            setattr(settings, f"{name}_strategy", "no")
        for callback in list(trainer.callback_handler.callbacks):
            kind = type(callback)
            if kind.__module__.startswith("transformers.integrations") or kind.__name__ in _SHOWS:
                trainer.remove_callback(callback)
        result = train(trainer)
        if trainer.eval_dataset is not None:
            trainer.evaluate()
        return result

    return run


def _without_folders(begin: Callable[..., None]) -> Callable[..., None]:
    @wraps(begin)
    def run(*args: Any, **named: Any) -> None:
        with mock.patch.object(os, "makedirs", _nothing):
            begin(*args, **named)

    return run


def _few_batches(fit: Callable[..., Any], steps: int) -> Callable[..., Any]:
    def run(trainer: Any, *args: Any, **named: Any) -> Any:
        trainer.fit_loop.max_epochs = 1
        trainer.limit_train_batches = steps * trainer.accumulate_grad_batches
        trainer.limit_val_batches = steps
        trainer.num_sanity_val_steps = 0
        trainer.loggers = []
        trainer.callbacks = [
            one
            for one in trainer.callbacks
            if not any(word in type(one).__module__ for word in _WRITES)
        ]
        with warnings.catch_warnings():
            # It asks for the length by a tensor's value.
            warnings.filterwarnings("ignore", message="Total length of")
            return fit(trainer, *args, **{**named, "ckpt_path": None})

    return run


def _is_a(value: object, module: str, name: str) -> bool:
    return any((kind.__module__, kind.__name__) == (module, name) for kind in type(value).__mro__)


def _lightning_of(value: object) -> str | None:
    """Return the package of a Lightning module."""
    for kind in type(value).__mro__:
        if kind.__name__ == _LIGHTNING_MODULE:
            package, _, rest = kind.__module__.partition(".")
            return "lightning.pytorch" if rest.startswith("pytorch.") else package
    return None


def _nothing(*_: object, **__: object) -> None:
    pass
