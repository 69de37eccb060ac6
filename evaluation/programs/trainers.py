"""Training loops that a library runs."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from evaluation.programs.language_models import gpt2, words
from evaluation.programs.plain_loops import RandomTokens
from gpu_runtime.training.scene import Scene

BATCH, LENGTH = 8, 512
EVALUATE_EVERY = 10


class StepBracket(TrainerCallback):
    """Begins and ends a step of the scene with each step of a trainer."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._open = ExitStack()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Begin a step."""
        self._open.enter_context(self._scene.step())

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """End it."""
        self._open.close()


class NotingTrainer(Trainer):
    """A trainer that notes its losses in the scene."""

    def __init__(self, scene: Scene, **options: Any) -> None:
        super().__init__(**options)
        self._scene = scene

    def compute_loss(self, model: nn.Module, *arguments: Any, **options: Any) -> Any:
        """Return the trainer's own loss, and note it in training mode."""
        found = super().compute_loss(model, *arguments, **options)
        if model.training:
            self._scene.note(found[0] if isinstance(found, tuple) else found)
        return found


def trainer_with_memory_metrics(scene: Scene) -> nn.Module:
    """Train with transformers, which resets peaks of memory and empties caches by itself."""
    model = gpt2(scene)
    batch, rounds = scene.batch(BATCH), len(scene.rounds)
    sequences = RandomTokens(batch * rounds, scene.length(LENGTH), words(scene))
    others = RandomTokens(2 * batch, scene.length(LENGTH), words(scene))
    with tempfile.TemporaryDirectory() as folder:
        trainer = NotingTrainer(
            scene,
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                max_steps=rounds,
                per_device_train_batch_size=batch,
                per_device_eval_batch_size=batch,
                bf16=True,
                optim="adamw_torch_fused",
                skip_memory_metrics=False,
                prediction_loss_only=True,
                eval_strategy="steps",
                eval_steps=EVALUATE_EVERY,
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=not scene.is_cuda,
                seed=scene.run.seed,
            ),
            data_collator=_collated,
            train_dataset=sequences,
            eval_dataset=others,
            callbacks=[StepBracket(scene)],
        )
        trainer.train()
    return model


def _collated(sequences: list[Tensor]) -> dict[str, Tensor]:
    tokens = torch.stack(sequences)
    return {"input_ids": tokens, "labels": tokens}
