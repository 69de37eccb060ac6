"""Registered language models: BERT, decoders, a translator, a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from instances.extract.models.model_registry import Build, register
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

BERT_FIELDS = ("input_ids", "attention_mask", "token_type_ids")


def build_bert(settings: StepSettings, **config: Any) -> tuple[Module, dict[str, Tensor]]:
    """Build a BERT for masked-language modelling; `config` changes the shape of BERT-base."""
    from transformers import BertConfig, BertForMaskedLM

    if settings.layers is not None:
        config["num_hidden_layers"] = settings.layers
    bert_config = BertConfig(**config)
    require_positions(settings, bert_config.max_position_embeddings)
    return BertForMaskedLM(bert_config), token_batch(settings, *BERT_FIELDS)


def _bert(**config: Any) -> Build:
    return lambda settings: build_bert(settings, **config)


register(
    "bert-base",
    "transformers.BertForMaskedLM(BertConfig())",
    StepSettings(layers=12),
    recomputed=("bert.encoder.layer",),
)(_bert())
register(
    "bert-large",
    "transformers.BertForMaskedLM(BertConfig(1024 wide, 16 heads))",
    StepSettings(batch=96, layers=24),
    recomputed=("bert.encoder.layer",),
)(_bert(hidden_size=1024, num_attention_heads=16, intermediate_size=4096))


@register(
    "gpt2-medium",
    "transformers.GPT2LMHeadModel(GPT2Config(1024 wide, 16 heads))",
    StepSettings(batch=8, seq=1024, layers=24),
    recomputed=("transformer.h",),
)
def gpt2_medium(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
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
    """Build a Llama of 1.2 billion parameters with grouped-query attention."""
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


@register(
    "transformer",
    "transformers.MarianMTModel(MarianConfig(Transformer big))",
    StepSettings(batch=48, seq=128, layers=6, clip_norm=0.0),
    recomputed=("model.encoder.layers", "model.decoder.layers"),
)
def transformer(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build the big Transformer; encoder and decoder have the same number of layers."""
    from transformers import MarianConfig, MarianMTModel

    sizes = {"layers": settings.layers, "attention_heads": 16, "ffn_dim": 4096}
    shape: dict[str, Any] = {
        f"{part}_{field}": value
        for part in ("encoder", "decoder")
        for field, value in sizes.items()
    }
    config = MarianConfig(
        vocab_size=36560,
        d_model=1024,
        activation_function="relu",
        scale_embedding=True,
        use_cache=False,
        pad_token_id=0,
        decoder_start_token_id=0,
        **shape,
    )
    require_positions(settings, config.max_position_embeddings)
    # In training the model shifts the labels and takes them as the decoder's tokens.
    decoder = () if settings.training else ("decoder_input_ids",)
    return MarianMTModel(config), token_batch(settings, "input_ids", "attention_mask", *decoder)


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
