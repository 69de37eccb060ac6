"""A BERT with dropout that trains in milliseconds, registered for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from gpu_runtime.training.training_run import Purpose, RegisteredModel, TrainingRun, model_run
from instances.extract.models.model_registry import MODELS, Model
from instances.extract.models.tokens import token_batch
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.step_settings import StepSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

VOCABULARY = 60


def build(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    from transformers import BertConfig, BertForMaskedLM

    config: dict[str, Any] = {
        "vocab_size": VOCABULARY, "hidden_size": 16, "num_attention_heads": 2,
        "intermediate_size": 32, "num_hidden_layers": 2, "max_position_embeddings": 16,
        "hidden_dropout_prob": 0.5,
    }  # fmt: skip
    batch = token_batch(settings, "input_ids", "attention_mask", "token_type_ids")
    return BertForMaskedLM(BertConfig(**config)), batch


def register_tiny_bert(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = StepSettings(batch=2, seq=8)
    model = Model("tiny", "a tiny BERT", build, defaults, recomputed=("bert.encoder.layer",))
    monkeypatch.setitem(MODELS, "tiny", model)


def tiny_run(purpose: Purpose = Purpose.CHECK, **shape: int | bool) -> TrainingRun:
    settings = TraceSettings(steps=2, microbatches=2, precision="float32")
    run = replace(model_run(purpose, RegisteredModel("tiny", shape, settings)), device="cpu")
    return run if purpose is Purpose.CHECK else replace(run, warm_up=2, turn_steps=3)
