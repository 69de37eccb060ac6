"""Loops whose sequences are not all of one length."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, cycle

from torch import Tensor, nn

from evaluation.programs.language_models import (
    WORDS,
    checkpointed,
    descend,
    gpt2,
    llama,
    t5,
    train_decoder,
    whisper,
    words,
)
from gpu_runtime.training.scene import Scene

BATCH = 8
IN_TURN = (256, 512, 384, 640)
STAGE_STEPS = 8
# Bands of sound that a Whisper hears.
MELS = 80


def four_in_turn(scene: Scene) -> nn.Module:
    """Train on batches of four lengths in turn, as bucketing by length gives them."""
    lengths = cycle(map(scene.length, IN_TURN))
    return _decoder(scene, gpt2(scene), WORDS, lambda: next(lengths))


def at_random(scene: Scene) -> nn.Module:
    """Train on batches of random lengths."""
    return _decoder(scene, gpt2(scene), WORDS, lambda: scene.length_between(128, 768))


def longer_and_longer(scene: Scene) -> nn.Module:
    """Train on short batches first; the length grows after every ``STAGE_STEPS`` steps."""
    numbers = count()

    def next_length() -> int:
        return scene.length(min(128 * (1 + next(numbers) // STAGE_STEPS), 768))

    return _decoder(scene, gpt2(scene), WORDS, next_length)


def llama_checkpointed_at_random(scene: Scene) -> nn.Module:
    """Train a Llama with activation checkpointing on batches of random lengths."""
    model = checkpointed(llama(scene, 1536))
    return _decoder(scene, model, 32_000, lambda: scene.length_between(512, 2048), batch=4)


def encoder_decoder_at_random(scene: Scene) -> nn.Module:
    """Train a T5 whose sources and targets have random lengths."""
    number_of_words = words(scene, 32_128)

    def draw() -> dict[str, Tensor]:
        source = scene.tokens(BATCH, scene.length_between(64, 512), number_of_words)
        target = scene.tokens(BATCH, scene.length_between(32, 256), number_of_words)
        return {"input_ids": source, "labels": target}

    return _encoder_decoder(scene, t5(scene), draw)


def speech_at_random(scene: Scene) -> nn.Module:
    """Train a Whisper on 30 seconds of sound each, whose labels have random lengths."""
    frames = 2 * scene.length(1500)

    def draw() -> dict[str, Tensor]:
        sound = scene.normal(scene.batch(BATCH), MELS, frames)
        target = scene.tokens(BATCH, scene.length_between(16, 256), words(scene, 51_865))
        return {"input_features": sound, "labels": target}

    return _encoder_decoder(scene, whisper(scene, frames), draw)


def _encoder_decoder(
    scene: Scene, model: nn.Module, draw: Callable[[], dict[str, Tensor]]
) -> nn.Module:
    optimizer = scene.adamw(its for its in model.parameters() if its.requires_grad)
    for _ in scene.rounds:
        inputs = draw()
        with scene.step():
            with scene.autocast():
                loss = model(**inputs).loss
            descend(scene, optimizer, loss)
    return model


def _decoder(
    scene: Scene,
    model: nn.Module,
    language: int,
    next_length: Callable[[], int],
    batch: int = BATCH,
) -> nn.Module:
    return train_decoder(
        scene, model, lambda: scene.tokens(batch, next_length(), words(scene, language))
    )
