"""Loops over batches of one length: with workers, microbatches, evaluation, sampling in between."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from evaluation.programs.language_models import (
    checkpointed,
    descend,
    gpt2,
    loss_of,
    train_decoder,
    words,
)
from gpu_runtime.training.scene import Scene

BATCH, LENGTH = 8, 512
MICROBATCHES = 4


def plain(scene: Scene) -> nn.Module:
    """Train on one batch after the other."""
    return train_decoder(scene, gpt2(scene), lambda: _tokens(scene))


class RandomTokens(Dataset[Tensor]):
    """Random sequences by number; a number gives the same sequence in every process."""

    def __init__(self, sequences: int, length: int, number_of_words: int) -> None:
        self.sequences, self.length, self.number_of_words = sequences, length, number_of_words

    def __len__(self) -> int:
        """Return how many sequences there are."""
        return self.sequences

    def __getitem__(self, number: int) -> Tensor:
        """Return a sequence."""
        generator = torch.Generator().manual_seed(number)
        return torch.randint(self.number_of_words, (self.length,), generator=generator)


def data_loader(scene: Scene, start_method: str = "fork") -> nn.Module:
    """Train on batches that two worker processes load."""
    model = gpt2(scene)
    optimizer = scene.adamw(model.parameters())
    batch = scene.batch(BATCH)
    sequences = RandomTokens(batch * len(scene.rounds), scene.length(LENGTH), words(scene))
    loader = DataLoader(
        sequences,
        batch,
        shuffle=True,
        num_workers=2,
        pin_memory=scene.is_cuda,
        multiprocessing_context=start_method,
    )
    for tokens in loader:
        with scene.step():
            here = tokens.to(scene.device, non_blocking=True)
            descend(scene, optimizer, loss_of(scene, model, here))
    return model


def checkpointed_microbatches(scene: Scene) -> nn.Module:
    """Add up the gradients of four microbatches in a step, with activation checkpointing."""
    model = checkpointed(gpt2(scene))
    optimizer = scene.adamw(model.parameters())
    for _ in scene.rounds:
        batches = [_tokens(scene, length=1024) for _ in range(MICROBATCHES)]
        with scene.step():
            _add_gradients(scene, model, batches)
            optimizer.step()
            optimizer.zero_grad()
    return model


def evaluation_between_steps(scene: Scene) -> nn.Module:
    """Evaluate two larger batches after every third step."""
    model = gpt2(scene)

    def evaluate(number: int) -> None:
        if number % 3 == 2:
            for _ in range(2):
                _evaluate(scene, model, batch=16)

    return train_decoder(scene, model, lambda: _tokens(scene), evaluate)


def optimizer_in_every_fourth_step(scene: Scene) -> nn.Module:
    """Run each microbatch as a step of its own; every fourth step runs the optimizer."""
    model = gpt2(scene)
    optimizer = scene.adamw(model.parameters())
    for number in scene.rounds:
        tokens = _tokens(scene)
        with scene.step():
            _add_gradients(scene, model, [tokens])
            if number % MICROBATCHES == MICROBATCHES - 1:
                optimizer.step()
                optimizer.zero_grad()
    return model


def accumulate_clip_average(scene: Scene) -> nn.Module:
    """Clip the gradient of four microbatches, and keep a moving average of the weights."""
    model = gpt2(scene)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = scene.adamw(model.parameters())
    for _ in scene.rounds:
        batches = [_tokens(scene, length=256) for _ in range(MICROBATCHES)]
        with scene.step():
            _add_gradients(scene, model, batches)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)
    return nn.ModuleList([model, average])


def generation_between_steps(scene: Scene) -> nn.Module:
    """Sample from the model after every fifth step, its cache growing token by token."""
    model = gpt2(scene)

    def sample(number: int) -> None:
        if number % 5 == 4:
            _generate(scene, model, 48)

    return train_decoder(scene, model, lambda: _tokens(scene), sample)


def validation_at_random(scene: Scene) -> nn.Module:
    """Evaluate a batch of another size after one step in three, or sample after one in three."""
    model = gpt2(scene)

    def look(_: int) -> None:
        what = scene.choice(3)
        if what == 0:
            _evaluate(scene, model, batch=24)
        elif what == 1:
            _generate(scene, model, 16)

    return train_decoder(scene, model, lambda: _tokens(scene), look)


def _evaluate(scene: Scene, model: nn.Module, batch: int) -> None:
    model.eval()
    with torch.no_grad():
        loss_of(scene, model, _tokens(scene, batch))
    model.train()


def _generate(scene: Scene, model: nn.Module, more: int) -> None:
    model.eval()
    with torch.no_grad(), scene.autocast():
        _sample(model, _tokens(scene, length=128), scene.length(more))
    model.train()


def _sample(model: nn.Module, tokens: Tensor, more: int) -> Tensor:
    cache = None
    latest = tokens
    for _ in range(more):
        out = model(input_ids=latest, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        chances = out.logits[:, -1].float().softmax(-1)
        latest = torch.multinomial(chances, 1)
        tokens = torch.cat([tokens, latest], 1)
    return tokens


def _tokens(scene: Scene, batch: int = BATCH, length: int = LENGTH) -> Tensor:
    return scene.tokens(batch, scene.length(length), words(scene))


def _add_gradients(scene: Scene, model: nn.Module, batches: list[Tensor]) -> None:
    for tokens in batches:
        loss = loss_of(scene, model, tokens) / MICROBATCHES
        torch.autograd.backward(loss)
        scene.note(loss)


def lora(scene: Scene) -> nn.Module:
    """Train the weights that peft adds to a GPT-2 in bfloat16; its own weights are frozen."""
    model = with_lora(gpt2(scene, dtype=torch.bfloat16))
    return train_decoder(
        scene, model.train(), lambda: scene.tokens(8, scene.length(1024), words(scene))
    )


def with_lora(base: nn.Module) -> nn.Module:
    """Return a GPT-2 with the weights that peft adds; its own weights are frozen."""
    # Imported here because peft is optional.
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["c_attn"], fan_in_fan_out=True
    )
    made: Any = get_peft_model(base, config)
    model: nn.Module = made
    return model
