"""Registered language models: BERT, decoders, PanGu-alpha, a translator, a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from instances.extract.models.model_registry import register
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import SHARDED, StepSettings
from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


BERT_LAYERS = ("bert.encoder.layer",)


@register(
    "bert-base",
    "transformers.BertForMaskedLM(BertConfig())",
    StepSettings(layers=12),
    recomputed=BERT_LAYERS,
)
def bert_base(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build BERT-base for masked-language modelling."""
    return build_bert(settings)


@register(
    "bert-large",
    "transformers.BertForMaskedLM(BertConfig(1024 wide, 16 heads))",
    StepSettings(batch=96, layers=24),
    recomputed=BERT_LAYERS,
)
def bert_large(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build BERT-large for masked-language modelling."""
    return build_bert(settings, hidden_size=1024, num_attention_heads=16, intermediate_size=4096)


@register(
    "bert-nezha",
    "NEZHA-large: BERT with fixed relative positions in attention",
    StepSettings(batch=48, layers=24),
    recomputed=("layers",),
)
def bert_nezha(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build NEZHA-large for masked-language modelling."""
    from instances.extract.models.networks.nezha import Nezha, NezhaShape

    batch = token_batch(settings, "input_ids", "attention_mask", "token_type_ids")
    return Nezha(NezhaShape(settings.layers or 1)), batch


@register(
    "tiny-bert",
    "TinyBERT: transformers.BertModel (4 layers, 312 wide) distilled from BertModel(BertConfig())",
    StepSettings(batch=27),
)
def tiny_bert(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build TinyBERT with the teacher that it is distilled from."""
    from transformers import BertConfig

    from instances.extract.models.networks.distillation import Distillation

    # Only attention that is written out can be compared.
    written_out: dict[str, Any] = {"attn_implementation": "eager"}
    teacher = BertConfig(**written_out)
    student = BertConfig(
        num_hidden_layers=4,
        hidden_size=312,
        num_attention_heads=12,
        intermediate_size=1200,
        **written_out,
    )
    require_positions(settings, teacher.max_position_embeddings)
    batch = token_batch(settings, "input_ids", "attention_mask", "token_type_ids")
    batch.pop("labels", None)
    return Distillation(teacher, student), batch


def build_bert(settings: StepSettings, **config: Any) -> tuple[Module, dict[str, Tensor]]:
    """Build a BERT for masked-language modelling, and tokens, padding mask, token types and labels.

    What is given of ``transformers.BertConfig`` differs from BERT-base.
    """
    from transformers import BertConfig, BertForMaskedLM

    if settings.layers is not None:
        config["num_hidden_layers"] = settings.layers
    bert_config = BertConfig(**config)
    require_positions(settings, bert_config.max_position_embeddings)
    batch = token_batch(settings, "input_ids", "attention_mask", "token_type_ids")
    return BertForMaskedLM(bert_config), batch


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


# The published network is trained with recomputation.
RECOMPUTED = ("layers",)


def _sharded(batch: int, layers: int, precision: str = "float32") -> StepSettings:
    """Parameters sharded as the published networks are: one rank alone could not hold them.

    The batch is such that the lifetime bound comes near the paper's.
    """
    return StepSettings(
        batch, 1024, layers=layers, checkpointing=True, precision=precision, parallel=SHARDED
    )


@register(
    "pangu-2.6b",
    "PanGu-alpha (2560 wide, 40 heads), parameters in float32, computed in bfloat16",
    _sharded(batch=25, layers=32),
    RECOMPUTED,
)
def pangu_2_6b(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build PanGu-alpha with 2.6 billion parameters."""
    return _build(settings, width=2560, heads=40)


@register(
    "pangu-8b",
    "PanGu-alpha (4096 wide, 32 heads), computed in bfloat16",
    _sharded(batch=18, layers=40, precision="bfloat16"),
    RECOMPUTED,
)
def pangu_8b(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build PanGu-alpha with 8 billion parameters."""
    return _build(settings, width=4096, heads=32)


@register(
    "pangu-13b",
    "PanGu-alpha (5120 wide, 40 heads), computed in bfloat16",
    _sharded(batch=24, layers=40, precision="bfloat16"),
    RECOMPUTED,
)
def pangu_13b(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build PanGu-alpha with 13 billion parameters."""
    return _build(settings, width=5120, heads=40)


def _build(settings: StepSettings, width: int, heads: int) -> tuple[Module, dict[str, Tensor]]:
    from instances.extract.models.networks.pangu_alpha import Pangu, PanguShape

    shape = PanguShape(settings.layers or 1, width, heads)
    require_positions(settings, shape.positions)
    return Pangu(shape), token_batch(settings, "input_ids")


@register(
    "transformer",
    "transformers.MarianMTModel(MarianConfig(Transformer big))",
    StepSettings(batch=48, seq=128, layers=6, clip_norm=0.0),
    recomputed=("model.encoder.layers", "model.decoder.layers"),
)
def transformer(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build the big Transformer, with as many layers in the encoder as in the decoder."""
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
    # While training the decoder's tokens are the labels, shifted.
    decoder = () if settings.training else ("decoder_input_ids",)
    return MarianMTModel(config), token_batch(settings, "input_ids", "attention_mask", *decoder)


@register(
    "qwen2-moe",
    "transformers.Qwen2MoeForCausalLM(Qwen2MoeConfig()) with experts spread over ranks",
    StepSettings(batch=2, seq=960, layers=12, ranks=4, precision="bfloat16"),
    recomputed=("model.layers",),
)
def qwen2_moe(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build Qwen2-MoE with 60 experts, of which each token goes through 4."""
    return build_qwen2_moe(settings)


def build_qwen2_moe(settings: StepSettings, **config: Any) -> tuple[Module, dict[str, Tensor]]:
    """Build a Qwen2-MoE for language modelling, whose blocks hold one rank's experts, and a batch.

    What is given of ``transformers.Qwen2MoeConfig`` differs from its defaults.
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
    """Return a sparse block that holds the experts of one rank, each with weights of its own.

    Router and shared expert are those of the block of transformers.
    """
    from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeMLP

    from instances.extract.parallel.expert_parallel import ExpertParallelBlock, GatedExpert

    make_expert: Callable[..., Module] = Qwen2MoeMLP
    experts = [
        make_expert(config, intermediate_size=config.moe_intermediate_size)
        for _ in range(config.num_experts // ranks)
    ]
    shared = GatedExpert(block.shared_expert, block.shared_expert_gate)
    return ExpertParallelBlock(block.gate, experts, shared, ranks)
