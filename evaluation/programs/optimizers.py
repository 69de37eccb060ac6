"""A GPT-2 under optimizers whose states are not two numbers in float32 for each weight."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evaluation.programs.language_models import descend, gpt2, loss_of, train_decoder, words
from gpu_runtime.training.scene import Scene

BATCH, LENGTH = 8, 512


def adafactor(scene: Scene) -> nn.Module:
    """Train with a row and a column of second moments for each matrix."""
    model = gpt2(scene)
    return train_decoder(
        scene, model, lambda: _tokens(scene), optimizer=torch.optim.Adafactor(model.parameters())
    )


def eight_bit(scene: Scene) -> nn.Module:
    """Train with moments of 8 bits, by bitsandbytes."""
    # Imported here because bitsandbytes is optional.
    from bitsandbytes.optim import AdamW8bit

    model = gpt2(scene)
    optimizer = AdamW8bit(model.parameters(), lr=1e-4)
    return train_decoder(scene, model, lambda: _tokens(scene), optimizer=optimizer)


def muon(scene: Scene) -> nn.Module:
    """Train the matrices of the layers with Muon, and all else with AdamW."""
    model = gpt2(scene)
    named = dict(model.named_parameters())
    matrices = [its for name, its in named.items() if its.ndim == 2 and ".h." in name]
    of_layers = torch.optim.Muon(matrices, lr=1e-3)
    others = {id(its) for its in named.values()} - {id(its) for its in matrices}
    of_others = scene.adamw(its for its in named.values() if id(its) in others)
    for _ in scene.rounds:
        tokens = _tokens(scene)
        with scene.step():
            loss = loss_of(scene, model, tokens)
            torch.autograd.backward(loss)
            for optimizer in (of_layers, of_others):
                optimizer.step()
                optimizer.zero_grad()
            scene.note(loss)
    return model


def scaled_half(scene: Scene) -> nn.Module:
    """Train in float16 with a scaled loss."""
    model = gpt2(scene)
    optimizer = scene.adamw(model.parameters())
    scaler = torch.amp.GradScaler(scene.device.type)
    for _ in scene.rounds:
        tokens = _tokens(scene)
        with scene.step():
            with torch.autocast(scene.device.type, torch.float16):
                loss = model(input_ids=tokens, labels=tokens).loss
            torch.autograd.backward(scaler.scale(loss))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scene.note(loss)
    return model


def full_precision(scene: Scene) -> nn.Module:
    """Train in float32 by SGD with momentum."""
    model = gpt2(scene)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    for _ in scene.rounds:
        tokens = _tokens(scene)
        with scene.step():
            descend(scene, optimizer, model(input_ids=tokens, labels=tokens).loss)
    return model


def _tokens(scene: Scene) -> Tensor:
    return scene.tokens(BATCH, scene.length(LENGTH), words(scene))
