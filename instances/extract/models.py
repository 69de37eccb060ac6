"""Registry of the models that can be extracted, built with random weights and no download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instances.extract.settings import StepSettings
from planners.errors import InstanceError

# Names are looked up, and the command line explains itself, where torch is not installed.
if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Build = Callable[[StepSettings], "tuple[Module, dict[str, Tensor]]"]


@dataclass(frozen=True)
class Model:
    """A model that can be extracted.

    Parameters
    ----------
    name
        What the command line calls it.
    source
        Expression that builds it, for the provenance of an instance.
    build
        Returns the module in training mode, and a batch: keyword arguments with which the
        module returns an object that has a ``loss``.
    """

    name: str
    source: str
    build: Build


MODELS: dict[str, Model] = {}


def register(name: str, source: str) -> Callable[[Build], Model]:
    """Register the function below as the builder of a model.

    Parameters
    ----------
    name, source
        As in :class:`Model`.

    Returns
    -------
    Callable
        Decorator that turns the builder into a :class:`Model`.

    Raises
    ------
    ValueError
        The name is taken.
    """

    def add(build: Build) -> Model:
        if name in MODELS:
            raise ValueError(f"model {name!r} is registered already")
        MODELS[name] = Model(name, source, build)
        return MODELS[name]

    return add


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
