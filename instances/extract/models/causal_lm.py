"""Decoders for language modelling, as people train them now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances.extract.models.model_registry import register
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import StepSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@register(
    "gpt2-medium",
    "transformers.GPT2LMHeadModel(GPT2Config(1024 wide, 16 heads))",
    StepSettings(batch=8, seq=1024, layers=24),
    recomputed=("transformer.h",),
)
def gpt2_medium(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build GPT-2 medium."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape: dict[str, Any] = {"n_embd": 1024, "n_head": 16, "n_layer": settings.layers}
    config = GPT2Config(use_cache=False, **shape)
    require_positions(settings, config.n_positions)
    return GPT2LMHeadModel(config), token_batch(settings, "input_ids")


@register(
    "llama-1b",
    "transformers.LlamaForCausalLM(LlamaConfig(Llama 3.2 1B))",
    StepSettings(batch=4, seq=2048, layers=16, precision="bfloat16"),
    recomputed=("model.layers",),
)
def llama_1b(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build a Llama of 1.2 billion parameters, with grouped queries."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape: dict[str, Any] = {
        "vocab_size": 128256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "max_position_embeddings": 131072,
    }
    config = LlamaConfig(tie_word_embeddings=True, use_cache=False, **shape)
    require_positions(settings, config.max_position_embeddings)
    return LlamaForCausalLM(config), token_batch(settings, "input_ids")
