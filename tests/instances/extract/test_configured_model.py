"""Models by a configuration file: the same as by name, other heads, and what is refused."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances.extract.eager.recording import record
from instances.extract.eager.trace_settings import TraceSettings
from instances.extract.models import configured_model, find_model
from planners.errors import GaplessError, InstanceError

pytestmark = pytest.mark.torch

SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 500}
LLAMA = {"model_type": "llama", "intermediate_size": 128, "pad_token_id": 0, **SMALL}
SEQUENCES = {"architectures": ["LlamaForSequenceClassification"]}
# A model that has others within.
PARTS = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}
SETTINGS = TraceSettings(steps=2, precision="bfloat16")


def written(folder: Path, fields: object) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    return str(path)


def nested(levels: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for _ in range(levels):
        fields = {"a": fields}
    return LLAMA | fields


def test_a_file_gives_the_trace_of_the_registered_model(tmp_path: Path) -> None:
    name = written(tmp_path, {"model_type": "bert", "architectures": ["BertForMaskedLM"]})
    shape = {"batch": 2, "seq": 16, "layers": 1}
    by_file, by_name = (record(one, SETTINGS, **shape) for one in (name, "bert-base"))
    assert np.array_equal(by_file.size, by_name.size)
    assert np.array_equal(by_file.free_requested, by_name.free_requested)
    assert by_file.module_names == by_name.module_names
    assert by_file.origin["model"] == "transformers.BertForMaskedLM(config.json)"
    assert str(by_file.origin["command"]).startswith(
        "python -m instances.extract trace config.json"
    )


@pytest.mark.parametrize(
    ("fields", "layers"),
    [
        (LLAMA, ("model.layers",)),
        ({**LLAMA, "architectures": ["LlamaForSequenceClassification"]}, ("model.layers",)),
        ({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4}, ("transformer.h",)),
        (
            {"model_type": "vit", "architectures": ["ViTForImageClassification"], **SMALL},
            ("vit.layers",),
        ),
    ],
)
def test_heads_and_the_layers_that_can_be_recomputed(
    fields: dict[str, Any], layers: tuple[str, ...], tmp_path: Path
) -> None:
    name = written(tmp_path, fields)
    model = find_model(name)
    assert (model.recomputed, model.defaults.layers) == (layers, 2)
    shape = {"seq": 256} if model.defaults.seq else {}
    plain, recomputed = (
        record(name, SETTINGS, batch=4, checkpointing=given, **shape) for given in (False, True)
    )
    assert recomputed.request_count > plain.request_count


def test_the_precision_is_that_of_the_step(tmp_path: Path) -> None:
    fields = {**LLAMA, "architectures": ["LlamaForCausalLM"]}
    plain = record(written(tmp_path, fields), SETTINGS, seq=32)
    folder = tmp_path / "other"
    folder.mkdir()
    given = written(folder, {**fields, "dtype": "float32", "torch_dtype": "float32"})
    assert np.array_equal(record(given, SETTINGS, seq=32).size, plain.size)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([], "field file: an object is needed, found []"),
        ({}, "field architectures: a model of transformers"),
        ({**LLAMA, "model_type": "lama"}, "field architectures: a model of transformers"),
        ({"architectures": ["LlamaForCausalLM"]}, "field model_type: a kind of model that"),
        ({**LLAMA, "architectures": ["Trainer"]}, "such as LlamaForCausalLM, found 'Trainer'"),
        ({**LLAMA, "architectures": ["LlamaModel"]}, "computes a loss from labels is needed"),
        ({**LLAMA, "quantization_config": {}}, "field quantization_config: quantised weights"),
        ({**LLAMA, "hidden_size": "wide"}, "the model cannot be traced: "),
        ({**LLAMA, "_attn_implementation": "org/a"}, "attn_implementation: code of transformers,"),
        ({**LLAMA, "attn_implementation": {"": "o/a@1:b"}}, "no repository of a hub is needed, fo"),
        ({**LLAMA, "_experts_implementation": "org/a"}, "field experts_implementation: code of tr"),
        ({**LLAMA, "attribute_map": {"b": "_attn_implementation"}, "b": "org/a"}, "found 'org/a'"),
        (PARTS | {"attn_implementation": {"text_config": "org/a"}}, "found 'org/a'"),
        (PARTS | {"text_config": {**LLAMA, "quantization_config": {}}}, "field quantization_confi"),
        ({**LLAMA, **SEQUENCES, "num_labels": 10**12}, "smaller numbers are needed"),
        ({**LLAMA, "hidden_size": 10**12}, "the model cannot be traced: "),
        ({**LLAMA, "vocab_size": 10**400}, "the model cannot be traced: "),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    fields: object, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = written(tmp_path, fields)
    with pytest.raises(InstanceError) as caught:
        find_model(name)
    assert str(caught.value).startswith(f"{name}: ")
    assert said in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_deep_file_is_read_or_refused(tmp_path: Path) -> None:
    """How deep transformers can read depends on the stack below the reader."""
    name = written(tmp_path, nested(900))
    said = ""
    try:
        find_model(name)
    except InstanceError as error:
        said = str(error)
    assert not said or said.startswith(f"{name}: the model cannot be traced: RecursionError")


@pytest.mark.parametrize(
    ("limit", "value"),
    [("MOST_PROCESSOR_SECONDS", 1), ("MOST_SECONDS", 0), ("MOST_BYTES", 1 << 24)],
)
def test_the_first_model_is_bounded(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configured_model, limit, value)
    name = written(tmp_path, {**LLAMA, "num_hidden_layers": 10**9})
    with pytest.raises(InstanceError, match="smaller numbers are needed: without weights"):
        find_model(name)


def test_a_configuration_reaches_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    with socket.create_server(("localhost", 0)) as server:
        address = server.getsockname()
        monkeypatch.setattr(
            transformers.LlamaForCausalLM, "__init__", lambda *_: socket.create_connection(address)
        )
        with pytest.raises(InstanceError, match="may not make transformers download anything"):
            find_model(written(tmp_path, LLAMA))


def test_a_sequence_is_no_longer_than_the_positions(tmp_path: Path) -> None:
    name = written(tmp_path, {**LLAMA, "max_position_embeddings": 64})
    assert find_model(name).defaults.seq == 64
    with pytest.raises(GaplessError, match="at most 64 tokens, the positions of the model"):
        record(name, SETTINGS, seq=65)


def test_what_pytorch_cannot_trace_is_one_line(tmp_path: Path) -> None:
    fields = {"model_type": "mixtral", "num_key_value_heads": 2, "intermediate_size": 64, **SMALL}
    name = written(tmp_path, fields)
    assert record(name, SETTINGS, seq=16).request_count > 0
    with pytest.raises(InstanceError, match="traced with --precision float32: RuntimeError"):
        record(name, TraceSettings(precision="float32"), seq=16)
