"""The language models that programs train, with random weights, and the loop around them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2MoeConfig,
    T5Config,
    T5ForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from gpu_runtime.training.scene import Scene

WORDS = 50_257
TINY_WORDS = 128


def words(scene: Scene, full: int = WORDS) -> int:
    """Return the size of the vocabulary."""
    return scene.wide(full, TINY_WORDS)


def gpt2(scene: Scene, layers: int = 12, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Return a GPT-2 of width 1,024, in training mode."""
    config = GPT2Config(
        vocab_size=words(scene),
        n_layer=scene.layers(layers),
        n_embd=scene.wide(1024, 32),
        n_head=scene.wide(16, 2),
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return on_device(scene, partial(AutoModelForCausalLM.from_config, dtype=dtype), config)


def llama(scene: Scene, width: int, layers: int = 10) -> nn.Module:
    """Return a Llama with 32,000 words, in training mode."""
    config = LlamaConfig(
        vocab_size=words(scene, 32_000),
        hidden_size=scene.wide(width, 32),
        intermediate_size=scene.wide(width * 11 // 4, 64),
        num_hidden_layers=scene.layers(layers),
        num_attention_heads=scene.wide(width // 128, 2),
        use_cache=False,
    )
    return on_device(scene, LlamaForCausalLM, config)


def qwen2_moe(scene: Scene, experts_implementation: str) -> nn.Module:
    """Return a Qwen2-MoE of 8 layers of width 1,024 in bfloat16, which grouped products need."""
    chosen: dict[str, Any] = {"experts_implementation": experts_implementation}
    config = Qwen2MoeConfig(
        vocab_size=words(scene, 32_000),
        hidden_size=scene.wide(1024, 32),
        intermediate_size=scene.wide(2816, 64),
        moe_intermediate_size=scene.wide(704, 32),
        shared_expert_intermediate_size=scene.wide(2816, 64),
        num_hidden_layers=scene.layers(8),
        num_attention_heads=scene.wide(16, 2),
        num_key_value_heads=scene.wide(16, 2),
        num_experts=scene.wide(16, 4),
        num_experts_per_tok=scene.wide(4, 2),
        use_cache=False,
        **chosen,
    )
    made = partial(AutoModelForCausalLM.from_config, dtype=torch.bfloat16)
    return on_device(scene, made, config)


def t5(scene: Scene) -> nn.Module:
    """Return a T5 of 8 encoder and 8 decoder layers of width 768, in training mode."""
    # The decoder's first token; the typed signature of some versions of transformers lacks it.
    beginning: dict[str, Any] = {"decoder_start_token_id": 0}
    config = T5Config(
        vocab_size=words(scene, 32_128),
        d_model=scene.wide(768, 32),
        d_kv=scene.wide(64, 16),
        d_ff=scene.wide(3072, 64),
        num_layers=scene.layers(8),
        num_heads=scene.wide(12, 2),
        use_cache=False,
        **beginning,
    )
    return on_device(scene, T5ForConditionalGeneration, config)


def whisper(scene: Scene, frames: int) -> nn.Module:
    """Return a Whisper of 12 encoder and 12 decoder layers of width 768, in training mode."""
    heads, hidden = scene.wide(12, 2), scene.wide(3072, 64)
    config = WhisperConfig(
        vocab_size=words(scene, 51_865),
        d_model=scene.wide(768, 32),
        encoder_layers=scene.layers(12),
        decoder_layers=scene.layers(12),
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=hidden,
        decoder_ffn_dim=hidden,
        # The model halves the number of frames.
        max_source_positions=frames // 2,
        use_cache=False,
        pad_token_id=0,
        decoder_start_token_id=0,
    )
    return on_device(scene, WhisperForConditionalGeneration, config)


def on_device(scene: Scene, kind: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    """Return a model of transformers, in training mode."""
    with torch.device(scene.device):
        return kind(config).train()


def checkpointed(model: Any) -> nn.Module:
    """Return the model with activation checkpointing: the backward pass recomputes activations."""
    model.gradient_checkpointing_enable()
    kept: nn.Module = model
    return kept


def loss_of(scene: Scene, model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the loss of predicting each next token."""
    with scene.autocast():
        loss: Tensor = model(input_ids=tokens, labels=tokens).loss
    return loss


def descend(scene: Scene, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Run the backward pass and the optimizer, and note the loss."""
    torch.autograd.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    scene.note(loss)


def train_decoder(
    scene: Scene,
    model: nn.Module,
    next_tokens: Callable[[], Tensor],
    after_step: Callable[[int], None] = lambda _: None,
    optimizer: torch.optim.Optimizer | None = None,
) -> nn.Module:
    """Train on one batch of tokens after the other; ``after_step`` gets the number of each step."""
    if optimizer is None:
        optimizer = scene.adamw(
            parameter for parameter in model.parameters() if parameter.requires_grad
        )
    for number in scene.rounds:
        tokens = next_tokens()
        with scene.step():
            loss = loss_of(scene, model, tokens)
            descend(scene, optimizer, loss)
        after_step(number)
    return model
