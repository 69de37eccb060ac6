"""A GPT-2 under optimizers whose states are not two numbers in float32 for each weight."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evaluation.programs.language_models import descend, gpt2, loss_of, train_decoder, words
from gpu_runtime.training.scene import Scene


def adafactor(scene: Scene) -> nn.Module:
    """Train with a row and a column of second moments for each matrix."""
    model = gpt2(scene)
    optimizer = torch.optim.Adafactor(model.parameters())
    return train_decoder(scene, model, lambda: _tokens(scene), optimizer=optimizer)


def eight_bit(scene: Scene) -> nn.Module:
    """Train with moments of 8 bits, by bitsandbytes."""
    from bitsandbytes.optim import AdamW8bit  # optional

    model = gpt2(scene)
    optimizer = AdamW8bit(model.parameters(), lr=1e-4)
    return train_decoder(scene, model, lambda: _tokens(scene), optimizer=optimizer)


def muon(scene: Scene) -> nn.Module:
    """Train the matrices of the layers with Muon, and all else with AdamW."""
    model = gpt2(scene)
    matrices = [its for name, its in model.named_parameters() if its.ndim == 2 and ".h." in name]
    known = set(map(id, matrices))
    others = scene.adamw(its for its in model.parameters() if id(its) not in known)
    for_matrices = torch.optim.Muon(matrices, lr=1e-3)
    for _ in scene.rounds:
        tokens = _tokens(scene)
        with scene.step():
            loss = loss_of(scene, model, tokens)
            torch.autograd.backward(loss)
            for optimizer in (for_matrices, others):
                optimizer.step()
                optimizer.zero_grad()
            scene.note(loss)
    return model


def scaled_half(scene: Scene) -> nn.Module:
    """Train in float16 with a scaled loss."""
    model = gpt2(scene)
    optimizer, scaler = scene.adamw(model.parameters()), torch.amp.GradScaler(scene.device.type)
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
    return scene.tokens(8, scene.length(512), words(scene))
