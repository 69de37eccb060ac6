"""Registered language models: BERT, decoders, a translator, a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from instances.extract.models.model_registry import register
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

BERT_FIELDS = ("input_ids", "attention_mask", "token_type_ids")


def of_tokens(
    settings: StepSettings,
    network: str,
    *fields: str,
    layers: Sequence[str] = ("num_hidden_layers",),
    **config: Any,
) -> tuple[Module, dict[str, Tensor]]:
    """Build a class of transformers that reads tokens, and a batch with these fields.

    `config` has what differs from the class's own configuration, and `layers` the names of the
    fields for the number of layers.
    """
    import transformers

    kind = getattr(transformers, network)
    made = kind.config_class(**dict.fromkeys(layers, settings.layers), **config)
    require_positions(settings, made.max_position_embeddings)
    return kind(made), token_batch(settings, *fields)


register(
    "bert-base",
    "transformers.BertForMaskedLM(BertConfig())",
    StepSettings(layers=12),
    recomputed=("bert.encoder.layer",),
)(lambda settings: of_tokens(settings, "BertForMaskedLM", *BERT_FIELDS))
register(
    "bert-large",
    "transformers.BertForMaskedLM(BertConfig(1024 wide, 16 heads))",
    StepSettings(batch=96, layers=24),
    recomputed=("bert.encoder.layer",),
)(
    lambda settings: of_tokens(
        settings, "BertForMaskedLM", *BERT_FIELDS,
        hidden_size=1024, num_attention_heads=16, intermediate_size=4096,
    )
)  # fmt: skip
register(
    "gpt2-medium",
    "transformers.GPT2LMHeadModel(GPT2Config(1024 wide, 16 heads))",
    StepSettings(batch=8, seq=1024, layers=24),
    recomputed=("transformer.h",),
)(
    lambda settings: of_tokens(
        settings, "GPT2LMHeadModel", "input_ids",
        layers=["n_layer"], n_embd=1024, n_head=16, use_cache=False,
    )
)  # fmt: skip
register(
    "llama-1b",
    "transformers.LlamaForCausalLM(LlamaConfig(Llama 3.2 1B))",
    StepSettings(batch=4, seq=2048, layers=16, precision="bfloat16"),
    recomputed=("model.layers",),
)(
    lambda settings: of_tokens(
        settings, "LlamaForCausalLM", "input_ids",
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=131072,
        tie_word_embeddings=True, use_cache=False,
    )
)  # fmt: skip
# In training the model shifts the labels and takes them as the decoder's tokens.
register(
    "transformer",
    "transformers.MarianMTModel(MarianConfig(Transformer big))",
    StepSettings(batch=48, seq=128, layers=6, clip_norm=0.0),
    recomputed=("model.encoder.layers", "model.decoder.layers"),
)(
    lambda settings: of_tokens(
        settings, "MarianMTModel", "input_ids", "attention_mask",
        *(() if settings.training else ("decoder_input_ids",)),
        layers=["encoder_layers", "decoder_layers"], d_model=1024, vocab_size=36560,
        encoder_attention_heads=16, decoder_attention_heads=16,
        encoder_ffn_dim=4096, decoder_ffn_dim=4096, activation_function="relu",
        scale_embedding=True, use_cache=False, pad_token_id=0, decoder_start_token_id=0,
    )
)  # fmt: skip


@register(
    "qwen2-moe",
    "transformers.Qwen2MoeForCausalLM(Qwen2MoeConfig()) with experts spread over ranks",
    StepSettings(batch=2, seq=960, layers=12, ranks=4, precision="bfloat16"),
    recomputed=("model.layers",),
)
def qwen2_moe(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build Qwen2-MoE with 60 experts; the router sends each token to 4 of them."""
    return build_qwen2_moe(settings)


def build_qwen2_moe(settings: StepSettings, **config: Any) -> tuple[Module, dict[str, Tensor]]:
    """Build a Qwen2-MoE whose sparse blocks hold the experts of one rank, and a batch.

    `config` changes the defaults of ``transformers.Qwen2MoeConfig``.
    """
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    shape: dict[str, Any] = {"num_hidden_layers": settings.layers, **config}
    moe_config = Qwen2MoeConfig(use_cache=False, **shape)
    if moe_config.num_experts % settings.ranks:
        raise InstanceError(
            f"setting ranks: a divisor of {moe_config.num_experts}, the number of experts, "
            f"found {settings.ranks}"
        )
    require_positions(settings, moe_config.max_position_embeddings)
    model = Qwen2MoeForCausalLM(moe_config)
    for layer in model.model.layers:
        layer.mlp = spread_experts(layer.mlp, moe_config, settings.ranks)
    return model, token_batch(settings, "input_ids")


def spread_experts(block: Any, config: Any, ranks: int) -> Module:
    """Return a sparse block that holds one rank's experts, each with weights of its own.

    The new block keeps the router and the shared expert of the block of transformers.
    """
    from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeMLP

    from instances.extract.models.expert_parallel import ExpertParallelBlock, GatedExpert

    make_expert: Callable[..., Module] = Qwen2MoeMLP
    experts = [
        make_expert(config, intermediate_size=config.moe_intermediate_size)
        for _ in range(config.num_experts // ranks)
    ]
    shared = GatedExpert(block.shared_expert, block.shared_expert_gate)
    return ExpertParallelBlock(block.gate, experts, shared, ranks)
