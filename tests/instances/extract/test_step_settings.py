"""Settings of an extraction and the registry of models, without torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from instances.extract.models import MODELS, find_model
from instances.extract.models.model_registry import register
from instances.extract.step_settings import StepSettings
from planners.errors import GaplessError, InstanceError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": 0}, "setting image: at least 1, found 0"),
        ({"batch": 1 << 40}, "setting batch: at most 1048576, found 1099511627776"),
        ({"layers": -2}, "setting layers: at least 1, found -2"),
        ({"mode": "serving"}, "setting mode: training or inference, found 'serving'"),
        ({"precision": "int8"}, "setting precision: float32 or bfloat16, found 'int8'"),
        ({"mode": "inference", "checkpointing": True}, "an inference graph has no backward pass"),
    ],
)
def test_refuses_settings_that_no_model_supports(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        StepSettings(**changes)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("resnet-50", {"seq": 128}, "setting seq: resnet-50 does not have it, found 128"),
        ("bert-base", {"image": 224}, "setting image: bert-base does not have it, found 224"),
        ("resnet-50", {"layers": 3}, "setting layers: resnet-50 does not have it, found 3"),
        ("bert-base", {"seq": None}, r"setting seq: bert-base needs it \(128 by default\)"),
        ("mobilenet-v2", {"checkpointing": True}, "mobilenet-v2 has no layers that can be recom"),
        ("gpt2-medium", {"mode": "inference", "optimizer": "sgd"}, "setting optimizer: an infer"),
        ("gpt2-medium", {"mode": "inference", "bucket_mb": 5}, "setting bucket_mb: an inference"),
    ],
)
def test_refuses_settings_that_a_model_does_not_support(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InstanceError, match=message):
        find_model(name).settings(**changes)


def test_inference_of_a_model_trained_with_recomputation_has_none() -> None:
    model = find_model("gpt2-medium")
    model = replace(model, defaults=replace(model.defaults, checkpointing=True))
    assert model.settings().checkpointing
    assert not model.settings(mode="inference").checkpointing


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_supports_its_own_defaults(name: str) -> None:
    model = MODELS[name]
    model.require_supported(model.settings())
    assert model.name == name
    assert (model.defaults.seq is None) != (model.defaults.image is None)


def test_a_name_is_registered_once() -> None:
    with pytest.raises(GaplessError, match="model name: must be free, found 'bert-base'"):
        register("bert-base", "again")(MODELS["bert-base"].build)


def test_the_command_line_says_what_differs_and_what_always_matters() -> None:
    defaults = StepSettings(layers=12)
    always = (
        "--batch 32 --seq 128 --optimizer adamw --clip-norm 1 --nodes-per-stream 350 --bucket-mb 25"
    )
    assert defaults.command_line(defaults) == always
    changed = replace(defaults, layers=2, checkpointing=True, precision="bfloat16")
    assert changed.command_line(defaults) == (
        f"{always} --layers 2 --checkpointing --precision bfloat16"
    )
    assert defaults.command_line(changed).endswith("--no-checkpointing --precision float32")


def test_the_command_line_of_inference_has_no_training_settings() -> None:
    defaults = StepSettings(seq=None, image=224)
    settings = replace(defaults, mode="inference")
    assert settings.command_line(defaults) == (
        "--batch 32 --nodes-per-stream 350 --image 224 --mode inference"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "setting batch: at least 1, found 0"),
        ({"nodes_per_stream": -1}, "setting nodes_per_stream: at least 1, found -1"),
        ({"bucket_mb": 0}, "setting bucket_mb: at least 1, found 0"),
        ({"ranks": 0}, "setting ranks: at least 1, found 0"),
        ({"streams": "one"}, "setting streams: category or succession or roles, found 'one'"),
        ({"parallel": "split"}, "setting parallel: replicated or sharded, found 'split'"),
        ({"clip_norm": float("nan")}, "setting clip_norm: a finite number"),
        ({"clip_norm": -1.0}, "setting clip_norm: a finite number"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        StepSettings(**changes)


def test_a_forward_pass_has_no_shards() -> None:
    assert StepSettings(parallel="sharded").sharded
    assert not StepSettings(parallel="sharded", mode="inference").sharded
    with pytest.raises(InstanceError, match="setting parallel: an inference graph has no use"):
        find_model("bert-base").settings(mode="inference", parallel="sharded")


def test_settings_of_parallelism_are_on_the_command_line_where_they_differ() -> None:
    defaults = StepSettings()
    assert "--parallel" not in defaults.command_line(defaults)
    changed = StepSettings(streams="roles", parallel="sharded", ranks=4)
    assert changed.command_line(defaults).endswith("--streams roles --parallel sharded --ranks 4")
