"""Models by a configuration file: the same as by name, other heads, and what is refused."""

from __future__ import annotations

import json
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances.extract.models import configured_model, find_model
from instances.extract.record.extraction import extract
from instances.extract.record.recording import record
from instances.extract.record.trace_settings import TraceSettings
from planners.errors import GaplessError, InstanceError

pytestmark = pytest.mark.torch

SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 500}
LLAMA = {"model_type": "llama", "intermediate_size": 128, "pad_token_id": 0, **SMALL}
SEQUENCES = {"architectures": ["LlamaForSequenceClassification"]}
# A model that has others within.
PARTS = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}
SETTINGS = TraceSettings(steps=2, precision="bfloat16")
FLOAT32 = TraceSettings(steps=1, precision="float32")
BODY = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2}
ENCODER = {**BODY, "intermediate_size": 64, "vocab_size": 50}
PICTURES = {**BODY, "intermediate_size": 64, "image_size": 32, "patch_size": 16}
STAGES = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
SOUND = {
    **ENCODER, "conv_dim": [8] * 7, "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
DECODER = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "vocab_size": 50, "pad_token_id": 0, "decoder_start_token_id": 1,
}  # fmt: skip
DETR = {
    **DECODER, "num_queries": 12, "use_timm_backbone": False, "backbone": None,
    "backbone_config": {
        "model_type": "resnet", "embedding_size": 8, "layer_type": "basic", **STAGES,
        "out_features": ["stage4"],
    },
}  # fmt: skip
BACKBONE = {
    "model_type": "swin", "image_size": 64, "embed_dim": 8, "depths": [1] * 4,
    "num_heads": [1] * 4, "window_size": 2, "out_features": [f"stage{n}" for n in range(1, 5)],
}  # fmt: skip
MASKS = {
    "backbone_config": BACKBONE, "hidden_dim": 32, "feature_size": 32, "mask_feature_size": 32,
    "encoder_feedforward_dim": 16, "dim_feedforward": 16, "num_attention_heads": 2,
    "encoder_layers": 1, "decoder_layers": 2, "num_queries": 12, "train_num_points": 16,
}  # fmt: skip
TWO = {"text_config": ENCODER, "vision_config": PICTURES}
T5 = {
    "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 50,
    "decoder_start_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
READER = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 50}
CAPTIONS = {
    "encoder": {"model_type": "vit", **PICTURES},
    "decoder": {**READER, "is_decoder": True, "add_cross_attention": True},
    "decoder_start_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
KOSMOS = "Kosmos2ForConditionalGeneration"
SPEECH = {"model_type": "moonshine", "architectures": ["MoonshineForConditionalGeneration"]}
TWO_LENGTHS = {"model_type": "speecht5", "architectures": ["SpeechT5ForSpeechToText"]}
SQUARE = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}
# The labels of these are the tensor of the tokens.
READERS = ("BertForMaskedLM", "BertForPreTraining", "LlavaForConditionalGeneration")
FIGURE = "pixel_values 2 x 3 x 32 x 32"
TOKENS = "input_ids 2 x 8"
RECORDING = "input_values 2 x 16000"
# A class, its kind of model, fields, settings, and its batch.
BATCHES: list[tuple[str, str, dict[str, Any], dict[str, int], str]] = [
    ("WhisperForConditionalGeneration", "whisper", DECODER | {"max_source_positions": 20},
     {"seq": 8}, "input_features 2 x 80 x 40, labels 2 x 8"),
    ("Wav2Vec2ForCTC", "wav2vec2", SOUND, {"seq": 16000}, f"{RECORDING}, labels 2 x 50"),
    ("HubertForSequenceClassification", "hubert", SOUND, {"seq": 16000}, f"{RECORDING}, labels 2"),
    ("Wav2Vec2BertForSequenceClassification", "wav2vec2-bert", ENCODER, {"seq": 40},
     "input_features 2 x 40 x 160, labels 2"),
    ("ASTForAudioClassification", "audio-spectrogram-transformer", ENCODER | {"max_length": 64},
     {}, "input_values 2 x 64 x 128, labels 2"),
    ("SegformerForSemanticSegmentation", "segformer",
     STAGES | {"num_attention_heads": [1] * 4, "decoder_hidden_size": 8}, {"image": 32},
     f"{FIGURE}, labels 2 x 32 x 32"),
    ("DetrForObjectDetection", "detr", DETR, {"image": 32},
     f"{FIGURE}, labels 2 of (class_labels 10, boxes 10 x 4)"),
    ("Mask2FormerForUniversalSegmentation", "mask2former", MASKS, {}, "pixel_values 2 x 3 x 64 x "
     "64, mask_labels 2 of (10 x 64 x 64), class_labels 2 of (10)"),
    ("GLPNForDepthEstimation", "glpn", STAGES | {"num_attention_heads": [1] * 4,
     "decoder_hidden_size": 8}, {"image": 32}, f"{FIGURE}, labels 2 x 32 x 32"),
    ("CLIPModel", "clip", TWO, {"seq": 8}, f"{TOKENS}, {FIGURE}, return_loss True"),
    ("SiglipModel", "siglip", TWO, {"seq": 8}, f"{TOKENS}, {FIGURE}, return_loss True"),
    ("BertForQuestionAnswering", "bert", ENCODER, {"seq": 8},
     f"{TOKENS}, start_positions 2, end_positions 2"),
    ("RobertaForTokenClassification", "roberta", ENCODER, {"seq": 8}, f"{TOKENS}, labels 2 x 8"),
    ("BertForMultipleChoice", "bert", ENCODER, {"seq": 8}, "input_ids 2 x 4 x 8, labels 2"),
    ("BertForPreTraining", "bert", ENCODER, {"seq": 8},
     f"{TOKENS}, labels 2 x 8, next_sentence_label 2"),
    ("BertForSequenceClassification", "bert", ENCODER | {"num_labels": 1}, {"seq": 8},
     f"{TOKENS}, labels 2"),
    ("BertForSequenceClassification", "bert",
     ENCODER | {"num_labels": 5, "problem_type": "multi_label_classification"}, {"seq": 8},
     f"{TOKENS}, labels 2 x 5"),
    ("BertForMaskedLM", "bert", ENCODER, {"seq": 8}, f"{TOKENS}, labels 2 x 8"),
    ("T5ForConditionalGeneration", "t5", T5, {"seq": 8}, f"{TOKENS}, labels 2 x 8"),
    ("BartForConditionalGeneration", "bart", DECODER, {"seq": 8}, f"{TOKENS}, labels 2 x 8"),
    ("ViTForImageClassification", "vit", PICTURES, {}, f"{FIGURE}, labels 2"),
    ("ViTForMaskedImageModeling", "vit", PICTURES, {}, f"{FIGURE}, bool_masked_pos 2 x 4"),
    ("ViTMAEForPreTraining", "vit_mae", PICTURES | {"decoder_hidden_size": 16,
     "decoder_num_attention_heads": 2, "decoder_intermediate_size": 16}, {}, FIGURE),
    ("VideoMAEForVideoClassification", "videomae", PICTURES | {"num_frames": 4}, {},
     "pixel_values 2 x 4 x 3 x 32 x 32, labels 2"),
    ("YolosForObjectDetection", "yolos", PICTURES | {"image_size": [32, 48]}, {},
     "pixel_values 2 x 3 x 32 x 48, labels 2 of (class_labels 10, boxes 10 x 4)"),
    ("LayoutLMv3ForTokenClassification", "layoutlmv3",
     ENCODER | {"input_size": 32, "coordinate_size": 4, "shape_size": 8},
     {"seq": 8, "image": 32}, f"{TOKENS}, bbox 2 x 8 x 4, {FIGURE}, labels 2 x 8"),
    ("VisionEncoderDecoderModel", "vision-encoder-decoder", CAPTIONS, {"seq": 8},
     f"{FIGURE}, labels 2 x 8"),
    ("LlavaForConditionalGeneration", "llava",
     {"text_config": LLAMA, "vision_config": {"model_type": "clip_vision_model", **PICTURES}},
     {"seq": 8}, f"{TOKENS}, labels 2 x 8"),
]  # fmt: skip


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


@pytest.mark.parametrize(
    ("network", "kind", "fields", "shape", "batch"), BATCHES, ids=[row[0] for row in BATCHES]
)
def test_a_class_gets_the_batch_of_its_task(
    network: str,
    kind: str,
    fields: dict[str, Any],
    shape: dict[str, int],
    batch: str,
    tmp_path: Path,
) -> None:
    """The model computes a loss of the batch on a CPU, and is traced with the same batch."""
    name = written(tmp_path, {"model_type": kind, "architectures": [network], **fields})
    model = find_model(name)
    from instances.extract.record.training_loop import zero_inputs

    module, given = model.build(model.settings(batch=2, **shape))
    module(**given).loss.backward()
    inputs = zero_inputs(given, module, "cpu")
    assert (inputs.get("labels", batch) is inputs.get("input_ids")) is (network in READERS)
    trace = record(name, FLOAT32, batch=2, **shape)
    assert str(trace.origin["notes"]).splitlines()[0] == f"{model.source} gets {batch}"
    assert trace.iteration_count == 1
    left_out = " without pixel_values" if kind == "llava" else ""
    assert model.source == f"transformers.{network}(config.json){left_out}"


def test_all_stacks_follow_the_number_of_layers(tmp_path: Path) -> None:
    fields = {"model_type": "bart", "architectures": ["BartForConditionalGeneration"], **DECODER}
    model = find_model(written(tmp_path, fields))
    module, _ = model.build(model.settings(layers=1))
    assert [len(module.get_submodule(stack)) for stack in model.recomputed] == [1, 1]
    (tmp_path / "clip").mkdir()
    clip = written(tmp_path / "clip", {"model_type": "clip", "architectures": ["CLIPModel"], **TWO})
    with pytest.raises(InstanceError, match=r"setting layers: config.json does not have it"):
        record(clip, SETTINGS, layers=1)


@pytest.mark.parametrize(
    ("network", "kind", "fields", "shape", "said"),
    [
        ("CLIPModel", "clip", TWO, {"seq": 8}, ""),
        ("DetrForObjectDetection", "detr", DETR, {"image": 32}, "argument labels: a tensor is ne"),
        ("Wav2Vec2ForCTC", "wav2vec2", SOUND, {"seq": 16000}, "the model cannot be traced: DataD"),
    ],
)
def test_a_graph_is_made_of_tensors_or_refused(
    network: str,
    kind: str,
    fields: dict[str, Any],
    shape: dict[str, int],
    said: str,
    tmp_path: Path,
) -> None:
    name = written(tmp_path, {"model_type": kind, "architectures": [network], **fields})
    refused = pytest.raises(InstanceError, match=said) if said else nullcontext()
    with refused:
        assert extract(name, find_model(name).settings(**shape)).tensor_count > 0


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
        ({**LLAMA, "architectures": ["LlamaModel"]}, "a class whose batch is known is needed"),
        ({"model_type": "sam", "architectures": ["SamModel"]}, "CLIPModel, found SamModel; for an"),
        ({"model_type": "luke", "architectures": ["LukeForMaskedLM"]}, "found LukeForMaskedLM; fo"),
        ({"model_type": "kosmos-2", "architectures": [KOSMOS]}, f"found {KOSMOS}; for another one"),
        (SPEECH, "field model_type: a model whose configuration says the shape of a recording"),
        (TWO_LENGTHS, "whose recordings have one length or whose labels have none"),
        (SQUARE | {"image_size": [8, 8, 8]}, "field image_size: a number of pixels, or height and"),
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
def test_each_fault_of_a_file_is_named(
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
    # The first two rows of such a table are for padding.
    offset = {**ENCODER, "model_type": "roberta", "max_position_embeddings": 66, "pad_token_id": 1}
    (tmp_path / "other").mkdir()
    other = written(tmp_path / "other", {**offset, "architectures": ["RobertaForMaskedLM"]})
    assert find_model(other).defaults.seq == 64
    with pytest.raises(GaplessError, match="at most 64 tokens, the positions of the model"):
        record(name, SETTINGS, seq=65)


def test_an_operator_without_a_trace_is_one_line(tmp_path: Path) -> None:
    fields = {"model_type": "mixtral", "num_key_value_heads": 2, "intermediate_size": 64, **SMALL}
    name = written(tmp_path, fields)
    assert record(name, SETTINGS, seq=16).request_count > 0
    with pytest.raises(InstanceError, match="traced with --precision float32: RuntimeError"):
        record(name, TraceSettings(precision="float32"), seq=16)
