"""Files of trainers become the request that the options of a model make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.fitting.sharded_states import StateLayout
from gpu_runtime.fitting.trainer_files import TrainerRequest, is_trainer_file, read_request
from planners.errors import InstanceError

HALF = "autocast-bfloat16-weights"
AXOLOTL = """
base_model: some/model
sequence_len: 4096
micro_batch_size: 2
gradient_accumulation_steps: 4
adapter: lora
lora_r: 32
lora_dropout: 0.05
lora_target_linear: true
lora_modules_to_save: [embed_tokens, lm_head]
optimizer: adamw_bnb_8bit
bf16: auto
tf32: false
gradient_checkpointing: true
flash_attention: true
wandb_project:
liger_rope: true
"""
FACTORY = """
model_name_or_path: some/model
stage: sft
finetuning_type: full
cutoff_len: 1024
template: llama3
per_device_train_batch_size: 3
bf16: true
"""
ACCELERATE = """
distributed_type: FSDP
mixed_precision: bf16
num_processes: 2
machine_rank: 0
fsdp_config: {fsdp_offload_params: true, fsdp_version: 2}
"""
ADAPTER = {
    "peft_type": "LORA", "base_model_name_or_path": "some/model", "r": 16, "bias": "none",
    "target_modules": ["v_proj", "q_proj"], "task_type": "CAUSAL_LM", "modules_to_save": None,
}  # fmt: skip
ZERO = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}}


def read(folder: Path, *texts: str | dict[str, Any], ranks: int = 1) -> TrainerRequest:
    (folder / "config.json").write_text('{"model_type": "llama", "hidden_size": 64}')
    names = []
    for index, text in enumerate(texts):
        path = folder / f"{index}{'.yaml' if isinstance(text, str) else '.json'}"
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        names.append(str(path))
    return read_request(names, ranks)


def test_axolotl(tmp_path: Path) -> None:
    found = read(tmp_path, AXOLOTL)
    assert found.model == str(tmp_path / "config.json")
    assert found.settings == {
        "seq": 4096, "batch": 2, "microbatches": 4, "checkpointing": True, "precision": HALF,
        "optimizer": "adamw",
        "lora": "r=32,lora_dropout=0.05,modules_to_save=[embed_tokens,lm_head],"
        "target_modules=all-linear",
    }  # fmt: skip
    assert found.layout == StateLayout(in_eight_bits=True)
    assert found.notes == ["0.yaml, liger_rope: not understood, and left out"]


def test_factory_trains_all_weights_in_float32_and_recomputes(tmp_path: Path) -> None:
    found = read(tmp_path, FACTORY)
    assert found.settings == {
        "seq": 1024, "batch": 3, "checkpointing": True, "precision": "autocast-bfloat16",
        "optimizer": "adamw",
    }  # fmt: skip
    lora = read(tmp_path, FACTORY.replace("full", "lora")).settings
    assert (lora["lora"], lora["precision"]) == ("r=8,target_modules=all-linear", HALF)
    pure = FACTORY.replace("bf16: true", "pure_bf16: true")
    assert read(tmp_path, pure).settings["precision"] == "bfloat16"
    assert not found.notes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (AXOLOTL.replace("adapter: lora", "adapter: qlora\nload_in_4bit: true"), "32"),
        (
            FACTORY.replace("finetuning_type: full", "finetuning_type: lora\nquantization_bit: 4"),
            "8",
        ),
    ],
)
def test_weights_in_four_bits_beside_those_of_lora(text: str, words: str, tmp_path: Path) -> None:
    found = read(tmp_path, text)
    assert found.settings["lora"].startswith(f"r={words},")
    assert found.settings["lora"].endswith(",target_modules=all-linear,bits=4")
    assert not [line for line in found.notes if "bit" in line]
    eight = read(tmp_path, text.replace("4bit", "8bit").replace("bit: 4", "bit: 8"))
    assert "bits" not in eight.settings["lora"]
    assert [line for line in eight.notes if "count in 16 bits" in line]


def test_peft_and_accelerate_add_to_a_model(tmp_path: Path) -> None:
    found = read(tmp_path, ADAPTER, ACCELERATE)
    assert found.settings["lora"] == "r=16,target_modules=[v_proj,q_proj]"
    assert found.settings["precision"] == HALF
    assert (found.parallel, found.ranks) == ("fsdp2", 2)
    assert found.layout == StateLayout(3, 2, True, True)
    assert not found.notes


def test_a_deepspeed_file_is_found_beside_the_one_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "zero.json").write_text(json.dumps(ZERO))
    found = read(tmp_path, f"{FACTORY}deepspeed: zero.json\n", ranks=4)
    assert found.layout == StateLayout(2, 4, has_copies=True, buckets=10**9)
    assert (found.parallel, found.settings["precision"]) == (None, "bfloat16")
    with pytest.raises(InstanceError, match="--ranks is needed"):
        read(tmp_path, FACTORY, ZERO)
    automatic = {"stage": 3, "reduce_bucket_size": "auto", "offload_param": {"device": "cpu"}}
    found = read(tmp_path, FACTORY, {**ZERO, "zero_optimization": automatic}, ranks=4)
    assert found.layout == StateLayout(
        3, 4, weights_on_host=True, has_copies=True, buckets=2 * 64**2
    )


def test_says_what_is_wrong(tmp_path: Path) -> None:
    for text, said in (
        ("- a list", "a mapping of keys is needed"),
        ("a: [", "a file of YAML is needed"),
        (f"{FACTORY}num_processes: many", "num_processes: a whole number from 1 on"),
        (f"{FACTORY}deepspeed: nowhere.json", "deepspeed: a file is needed, found 'nowhere.json'"),
        (f"{FACTORY}deepspeed: 0.yaml", "deepspeed: a file is needed"),
        ("bf16: true", "a model is needed, by one of base_model"),
    ):
        with pytest.raises(InstanceError, match=said):
            read(tmp_path, text)
    (tmp_path / "config.json").unlink()
    (tmp_path / "a.yaml").write_text(FACTORY)
    with pytest.raises(InstanceError, match=r"some/model: its config\.json is needed"):
        read_request([str(tmp_path / "a.yaml")])
    assert not is_trainer_file(str(tmp_path / "none.json"))
