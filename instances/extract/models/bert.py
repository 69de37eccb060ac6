"""BERT for masked-language modelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances.extract.models.model_registry import register
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import StepSettings

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
