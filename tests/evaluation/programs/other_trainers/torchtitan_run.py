"""torchtitan 0.2.2 with the patch of docs/training.md, on two GPUs, under each allocator.

    python torchtitan_run.py prepare FOLDER
    PYTHONPATH=FOLDER:... torchrun --standalone --nproc-per-node 2 torchtitan_run.py \
        run FOLDER default|expandable|planned debugmodel|hundreds OUT.jsonl \
        [--steps 30] [--warm-up 10] [--batch 32] [--seq 2048]

``prepare`` copies the installed package into FOLDER, patches it by the page, and writes a
tokenizer, texts and a configuration of the debug model, all of which the wheel lacks. ``run``
appends one line of JSON for each rank: bytes since the warm-up, and losses of every step.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import textwrap
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[4]
# A configuration of torchtitan's debug model, written from memory: the wheel has none.
DEBUG_MODEL = """
[job]
dump_folder = "{folder}/outputs"
description = "Llama 3 debug training"
[metrics]
log_freq = 1000000
[model]
name = "llama3"
flavor = "debugmodel"
hf_assets_path = "{folder}/tokenizer"
[optimizer]
name = "AdamW"
lr = 8e-4
eps = 1e-8
[lr_scheduler]
warmup_steps = 2
decay_ratio = 0.8
decay_type = "linear"
min_lr_factor = 0.0
[training]
local_batch_size = 8
seq_len = 2048
max_norm = 1.0
steps = 10
dataset = "c4_test"
dataset_path = "{folder}/c4_test"
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 1
pipeline_parallel_degree = 1
context_parallel_degree = 1
[checkpoint]
enable = false
[activation_checkpoint]
mode = "selective"
selective_ac_option = "2"
[compile]
enable = false
"""


def prepare(folder: Path) -> None:
    import importlib.util

    spec = importlib.util.find_spec("torchtitan")
    assert spec is not None, "torchtitan is not installed"
    assert spec.submodule_search_locations
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(spec.submodule_search_locations[0], folder / "torchtitan", dirs_exist_ok=True)
    patch(folder / "torchtitan")
    texts = write_texts(folder / "c4_test")
    write_tokenizer(folder / "tokenizer", texts)
    (folder / "debug_model.toml").write_text(DEBUG_MODEL.format(folder=folder))
    print("torchtitan is patched in", folder)


def patch(package: Path) -> None:
    """Apply the four blocks of code of the page, in its order."""
    page = (ROOT / "docs" / "training.md").read_text()
    section = page.partition("\n## torchtitan\n")[2].partition("\n## ")[0]
    blocks: list[list[str]] = [[]]
    for line in section.splitlines():
        if line.startswith("    "):
            blocks[-1].append(line)
        elif line.strip():
            blocks.append([])
        elif blocks[-1]:
            blocks[-1].append("")
    fields, built, stepped, command = (
        textwrap.dedent("\n".join(each)).strip("\n") for each in blocks if each
    )
    assert command.startswith("torchrun"), command
    around, report = stepped.split("\n\n")
    insert(
        package / "config" / "job_config.py",
        "@dataclass\nclass Training:\n",
        "@dataclass\nclass Training:\n" + textwrap.indent(fields, "    ") + "\n\n",
    )
    train = package / "train.py"
    if "import contextlib" not in train.read_text():
        insert(train, "import dataclasses\n", "import contextlib\nimport dataclasses\n")
    here = "        device_module.set_device(self.device)\n"
    insert(train, here, here + textwrap.indent(built, " " * 8) + "\n")
    here = " " * 20 + "self.train_step(data_iterator)\n"
    insert(train, here, textwrap.indent(around, " " * 20) + "\n")
    here = '        if torch.distributed.get_rank() == 0:\n            logger.info("Sleeping 2'
    insert(train, here, textwrap.indent(report, " " * 8) + "\n\n" + here)


def insert(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file}: {old!r} is there {text.count(old)} times"
    file.write_text(text.replace(old, new))


def write_texts(folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(3000)]
    texts = [" ".join(draw.choices(words, k=draw.randint(50, 800))) for _ in range(2000)]
    lines = [json.dumps({"text": text}) for text in texts]
    (folder / "data.json").write_text("\n".join(lines) + "\n")
    return texts


def write_tokenizer(folder: Path, texts: list[str]) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|end_of_text|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts[:300], trainer)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": special[0], "eos_token": special[1]}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))


def run(folder: Path, asked: argparse.Namespace) -> None:
    if asked.allocator == "expandable":
        # Read by PyTorch when it is first used.
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    os.environ.update(
        HF_HUB_OFFLINE="1",
        HF_DATASETS_OFFLINE="1",
        HF_DATASETS_CACHE=f"{folder}/cache-{os.getpid()}",
    )
    import torch
    from torchtitan.config import ConfigManager
    from torchtitan.models import llama3
    from torchtitan.tools.logging import init_logger
    from torchtitan.train import Trainer

    assert Path(sys.modules["torchtitan"].__file__ or "").is_relative_to(folder), "unpatched"
    # 24 layers of 1,024: some hundred million parameters.
    llama3.llama3_args["hundreds"] = llama3.TransformerModelArgs(
        dim=1024, n_layers=24, n_heads=16, vocab_size=32_000, rope_theta=500_000
    )

    class Measured(Trainer):
        losses: list[str]
        moments: list[float]
        found: dict[str, object]

        def forward_backward_step(self, *args, **kwargs):
            loss = super().forward_backward_step(*args, **kwargs)
            self.losses.append(loss.detach().item().hex())
            return loss

        def should_continue_training(self) -> bool:
            """Called between steps: begin to count after the warm-up, and read after the last."""
            self.moments.append(time.perf_counter())
            goes_on = super().should_continue_training()
            if self.step == asked.warm_up:
                self.memory_of(reset=True)
            if not goes_on:
                self.memory_of(reset=False)
            return goes_on

        def memory_of(self, *, reset: bool) -> None:
            memory = getattr(self, "planned_memory", None)
            torch.cuda.synchronize()
            if reset:
                if memory:
                    memory.wait_for_planning()
                    memory.reset_peaks()
                torch.cuda.reset_peak_memory_stats()
                return
            figures = torch.cuda.memory_stats()
            for kind in ("reserved", "allocated", "requested"):
                self.found[kind] = figures[f"{kind}_bytes.all.peak"]
            for what in ("num_device_alloc", "num_device_free", "num_sync_all_streams"):
                self.found[what] = figures.get(what)
            if memory:
                report = memory.report()
                self.found |= {
                    "pytorch_said": report.pytorch_bytes,
                    "default_said": report.default_bytes,
                    "expandable_said": report.expandable_bytes,
                    "status": report.status,
                    "reason": report.reason,
                    "steps": report.steps,
                    "plans": report.plans,
                    "planned_steps": report.planned_steps,
                    "arena": report.arena_bytes,
                    "mismatches": report.mismatch_counts,
                }

    Measured.losses, Measured.moments, Measured.found = [], [], {}
    init_logger()
    options = [
        "--job.config_file",
        f"{folder}/debug_model.toml",
        "--model.flavor",
        asked.flavor,
        "--debug.seed",
        "0",
        "--debug.deterministic",
        "--training.steps",
        str(asked.steps),
        "--training.local_batch_size",
        str(asked.batch),
        "--training.seq_len",
        str(asked.seq),
    ]
    if asked.allocator == "planned":
        options.append("--training.planned_memory")
    trainer = Measured(ConfigManager().parse_args(options))
    trainer.train()
    trainer.close()
    times = [after - before for before, after in pairwise(trainer.moments)]
    parameters = sum(its.numel() for part in trainer.model_parts for its in part.parameters())
    line = {
        "program": f"torchtitan {asked.flavor} {asked.batch} x {asked.seq}",
        "allocator": asked.allocator,
        "rank": int(os.environ["RANK"]),
        "parameters": parameters,
        **trainer.found,
        "step_ms": round(1e3 * median(times[asked.warm_up :]), 3),
        "last_loss": trainer.losses[-1],
        "losses": hash_of(trainer.losses),
    }
    with asked.out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    torch.distributed.destroy_process_group()


def hash_of(losses: list[str]) -> str:
    import hashlib

    return hashlib.sha256(" ".join(losses).encode()).hexdigest()[:16]


def main() -> None:
    if sys.argv[1] == "prepare":
        prepare(Path(sys.argv[2]).resolve())
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("folder", type=Path)
    parser.add_argument("allocator", choices=["default", "expandable", "planned"])
    parser.add_argument("flavor")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=2048)
    asked = parser.parse_args()
    run(asked.folder.resolve(), asked)


main()
