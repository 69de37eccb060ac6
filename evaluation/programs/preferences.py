"""Direct preference optimization: one answer of each pair is to become likelier than the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend, gpt2, words
from evaluation.programs.plain_loops import with_lora
from gpu_runtime.training.scene import Scene

PAIRS = 4
LEAST_PROMPT, MOST_PROMPT = 32, 256
LEAST_ANSWER, MOST_ANSWER = 64, 512
# How much the likelihoods may leave those of the reference model.
BETA = 0.1


def preferences(scene: Scene) -> nn.Module:
    """Train the weights of LoRA on pairs; the reference is the same model without them."""
    trained = with_lora(gpt2(scene, dtype=torch.bfloat16))
    model: Any = trained
    optimizer = scene.adamw(its for its in trained.parameters() if its.requires_grad)
    for _ in scene.rounds:
        tokens, is_answer = _pairs(scene)
        with scene.step():
            with torch.no_grad(), model.disable_adapter():
                reference = _likelihoods(model.eval(), tokens, is_answer)
            chosen, rejected = (_likelihoods(model.train(), tokens, is_answer) - reference).chunk(2)
            descend(scene, optimizer, -functional.logsigmoid(BETA * (chosen - rejected)).mean())
    return trained


def _likelihoods(model: nn.Module, tokens: Tensor, is_answer: Tensor) -> Tensor:
    """Return the log likelihood of each answer. Padding follows it, so attention needs no mask."""
    scores = model(input_ids=tokens).logits[:, :-1].float().flatten(0, 1)
    of_words = -functional.cross_entropy(scores, tokens[:, 1:].flatten(), reduction="none")
    return (of_words.view(len(tokens), -1) * is_answer[:, 1:]).sum(1)


def _pairs(scene: Scene) -> tuple[Tensor, Tensor]:
    """Return padded tokens, the chosen answers before the rejected ones, and where answers are."""
    pairs = scene.batch(2 * PAIRS) // 2
    prompts = [scene.length_between(LEAST_PROMPT, MOST_PROMPT) for _ in range(pairs)] * 2
    ends = [prompt + scene.length_between(LEAST_ANSWER, MOST_ANSWER) for prompt in prompts]
    places = torch.arange(max(ends))
    is_prompt, is_within = (places < torch.tensor(its)[:, None] for its in (prompts, ends))
    tokens = scene.tokens(2 * PAIRS, max(ends), words(scene))
    both = torch.where(scene.to_device(is_prompt), tokens[:pairs].repeat(2, 1), tokens)
    return both, scene.to_device(is_within & ~is_prompt)
