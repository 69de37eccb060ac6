"""Programs whose steps call ``generate()``: serving, and rollouts between updates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend, gpt2, words
from evaluation.programs.plain_loops import with_lora
from gpu_runtime.training.scene import Scene

MOST_PROMPTS, LEAST_PROMPT, MOST_PROMPT = 64, 16, 768
LEAST_ANSWER, MOST_ANSWER = 8, 48
ROLLOUTS, ROLLOUT_PROMPT = 32, 64


class Served(nn.Module):
    """A model that answers, and how often it said each word."""

    def __init__(self, model: Any, number_of_words: int) -> None:
        super().__init__()
        self.model = model
        said = torch.zeros(number_of_words, device=model.device)
        self.said = nn.Parameter(said, requires_grad=False)


def serve(scene: Scene) -> nn.Module:
    """Answer prompts; their number and length, and the length of the answers, are random."""
    model: Any = gpt2(scene, layers=24, dtype=torch.bfloat16)
    served = Served(model.eval(), words(scene))
    for _ in scene.rounds:
        count = 1 + scene.choice(MOST_PROMPTS)
        prompts = scene.tokens(count, scene.length_between(LEAST_PROMPT, MOST_PROMPT), words(scene))
        with scene.step(), torch.no_grad():
            answers = _generate(scene, model, prompts)
            served.said.add_(torch.bincount(answers.flatten(), minlength=words(scene)))
            scene.note(model.get_input_embeddings()(answers).float().mean())
    return served


def rollouts(scene: Scene) -> nn.Module:
    """Sample answers in one step; train the weights of LoRA on them in the next."""
    trained = with_lora(gpt2(scene, dtype=torch.bfloat16))
    model: Any = trained
    optimizer = scene.adamw(its for its in trained.parameters() if its.requires_grad)
    answers = torch.empty(0)
    for number in scene.rounds:
        prompts = scene.tokens(ROLLOUTS, scene.length(ROLLOUT_PROMPT), words(scene))
        with scene.step():
            if number % 2 == 0:
                model.eval()
                with torch.no_grad():
                    answers = torch.cat([prompts, _generate(scene, model, prompts)], 1)
                    scene.note(model.get_input_embeddings()(answers).float().mean())
            else:
                model.train()
                descend(scene, optimizer, _policy_loss(model, answers))
    return trained


def _generate(scene: Scene, model: Any, prompts: Tensor) -> Tensor:
    """Return sampled answers, as long as the moment wants them."""
    length = scene.length_between(LEAST_ANSWER, MOST_ANSWER)
    sampled: Tensor = model.generate(
        input_ids=prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=True,
        min_new_tokens=length,
        max_new_tokens=length,
        use_cache=True,
        pad_token_id=0,
    )
    return sampled[:, prompts.shape[1] :]


def _policy_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the loss of a policy whose reward is the share of even words in an answer."""
    scores = model(input_ids=tokens).logits[:, :-1].float()
    of_words = -functional.cross_entropy(scores.transpose(1, 2), tokens[:, 1:], reduction="none")
    reward = (tokens % 2 == 0).float().mean(1)
    loss: Tensor = -(reward[:, None] * of_words).mean()
    return loss
