"""BERT for masked-language modelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances.extract.models.registry import register
from instances.extract.settings import StepSettings
from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@register("bert-base", "transformers.BertForMaskedLM(BertConfig())")
def bert_base(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build BERT-base for masked-language modelling."""
    return build_bert(settings)


def build_bert(settings: StepSettings, **config: Any) -> tuple[Module, dict[str, Tensor]]:
    """Build a BERT for masked-language modelling and what a collator feeds it.

    Parameters
    ----------
    settings
        Batch and sequence length.
    config
        Fields of ``transformers.BertConfig`` that differ from BERT-base.

    Returns
    -------
    module : torch.nn.Module
        In training mode.
    batch : dict of torch.Tensor
        Tokens, padding mask, token types and labels, each (batch, seq) int64.

    Raises
    ------
    InstanceError
        The sequence is longer than the model's positions.
    """
    import torch
    from transformers import BertConfig, BertForMaskedLM

    bert_config = BertConfig(**config)
    if settings.seq > bert_config.max_position_embeddings:
        raise InstanceError(
            f"setting seq: at most {bert_config.max_position_embeddings} tokens, the positions of "
            f"BERT, found {settings.seq}"
        )
    shape = (settings.batch, settings.seq)
    fields = ("input_ids", "attention_mask", "token_type_ids", "labels")
    batch = {field: torch.zeros(shape, dtype=torch.int64) for field in fields}
    return BertForMaskedLM(bert_config).train(), batch
