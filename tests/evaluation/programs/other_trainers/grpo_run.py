# ruff: noqa: E402 (the environment and planned memory come before PyTorch allocates)
"""GRPO of TRL on two GPUs: generation and training in one process, what idles is paused.

    python grpo_run.py prepare FOLDER [--width 1536] [--layers 10]
    torchrun --standalone --nproc-per-node 2 grpo_run.py default|expandable|planned|paused FOLDER \
        --out OUT.jsonl [--steps 10] [--completion 64] [--batch 8] [--device cuda|cpu]

`prepare` writes a model of random weights, for TRL reads the reference model from a folder.
`paused` is planned memory that gives back, during generation, the optimizer's states and the
reference model, and NCCL's memory where PyTorch offers the call; during the update the reference
model. Each rank appends one line of JSON: bytes by part, and peaks by phase.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median

parser = argparse.ArgumentParser()
parser.add_argument("allocator", choices=["prepare", "default", "expandable", "planned", "paused"])
parser.add_argument("folder", type=Path)
parser.add_argument("--out", type=Path)
parser.add_argument("--width", type=int, default=1536)
parser.add_argument("--layers", type=int, default=10)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--completion", type=int, default=64)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--device", default="cuda")
asked = parser.parse_args()
if asked.allocator == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "TOKENIZERS_PARALLELISM": "false",
}

import torch
from torch import distributed

RANK = int(os.environ.get("RANK", "0"))
is_cuda = asked.device == "cuda" and asked.allocator != "prepare"
memory = None
if is_cuda:
    torch.cuda.set_device(RANK)
if asked.allocator in ("planned", "paused"):
    from gpu_runtime import PlannedMemory

    memory = PlannedMemory(device=RANK)
    memory.install()


from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

WORDS = [f"w{number}" for number in range(1997)]
# Steps before the figures count: three without a plan, and those that fill the caches.
WARM_UP = 4


def made_tokenizer() -> PreTrainedTokenizerFast:
    named = {word: number for number, word in enumerate(["<pad>", "<bos>", "<eos>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(named, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        padding_side="left",
    )


def prepare() -> None:
    config = LlamaConfig(
        vocab_size=2000,
        hidden_size=asked.width,
        intermediate_size=4 * asked.width,
        num_hidden_layers=asked.layers,
        num_attention_heads=max(2, asked.width // 128),
        num_key_value_heads=max(2, asked.width // 128),
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(asked.folder)


def driver_bytes() -> int | None:
    """Bytes of this process on its GPU, as the driver counts them."""
    if not is_cuda:
        return None
    from gpu_runtime.training.driver_bytes import driver_bytes as counted

    torch.cuda.synchronize()
    return counted(str(torch.cuda.get_device_properties(RANK).uuid))


class Pauses:
    """Pauses of parts, and what each gave back."""

    def __init__(self) -> None:
        self.paused: set[str] = set()
        self.known: set[str] = set()
        self.given: dict[str, list[int]] = {}
        self.seconds: dict[str, list[float]] = {}
        self.nccl: object = "not asked"

    def pause(self, tag: str) -> None:
        if asked.allocator != "paused" or tag not in self.known or tag in self.paused:
            return
        begun = time.perf_counter()
        self.given.setdefault(tag, []).append(memory.pause(tag, keep="host"))
        self.seconds.setdefault(f"pause {tag}", []).append(time.perf_counter() - begun)
        self.paused.add(tag)

    def resume(self, tag: str) -> None:
        if tag in self.paused:
            begun = time.perf_counter()
            memory.resume(tag)
            self.seconds.setdefault(f"resume {tag}", []).append(time.perf_counter() - begun)
            self.paused.remove(tag)

    def suspend_nccl(self) -> None:
        """Give NCCL's memory back, where PyTorch offers the call."""
        if asked.allocator != "paused" or not is_cuda:
            return
        backend = distributed.group.WORLD._get_backend(torch.device("cuda"))
        if not hasattr(backend, "suspend"):
            self.nccl = f"PyTorch {torch.__version__} offers no call"
            return
        distributed.barrier()
        before = driver_bytes()
        try:
            backend.suspend()
        except Exception as error:
            self.nccl = f"{type(error).__name__}: {error}"[:300]
            return
        after = driver_bytes()
        self.nccl = "suspended"
        self.given.setdefault("nccl", []).append((before or 0) - (after or 0))
        self.paused.add("nccl")

    def resume_nccl(self) -> None:
        if "nccl" in self.paused:
            distributed.group.WORLD._get_backend(torch.device("cuda")).resume()
            self.paused.remove("nccl")


class Phases:
    """Peaks of reserved and allocated bytes by phase after the warm-up, and the driver's bytes."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, int]] = {}
        self.counts = False

    def begin(self) -> None:
        if is_cuda:
            torch.cuda.reset_peak_memory_stats()

    def end(self, name: str) -> None:
        if not (is_cuda and self.counts):
            return
        figures = torch.cuda.memory_stats()
        its = self.found.setdefault(name, {})
        now = {
            f"{kind}_peak": figures[f"{kind}_bytes.all.peak"] for kind in ("reserved", "allocated")
        }
        now["reserved_now"] = figures["reserved_bytes.all.current"]
        now["driver_now"] = driver_bytes() or 0
        for key, value in now.items():
            its[key] = max(its.get(key, 0), value)


pauses, phases = Pauses(), Phases()


class Paused(GRPOTrainer):
    def create_optimizer(self, *args, **kwargs):
        optimizer = super().create_optimizer(*args, **kwargs)
        if memory and not hasattr(self, "_tags"):
            self._tags = ExitStack()

            def before(*_):
                pauses.resume("optimizer")
                self._tags.enter_context(memory.tagged("optimizer"))

            def after(*_):
                self._tags.close()
                pauses.known.add("optimizer")

            self.optimizer.register_step_pre_hook(before)
            self.optimizer.register_step_post_hook(after)
        return optimizer

    def _generate_and_score_completions(self, *args, **kwargs):
        phases.end("update")
        pauses.pause("optimizer")
        pauses.pause("reference")
        found = super()._generate_and_score_completions(*args, **kwargs)
        phases.end("score")
        pauses.pause("reference")
        phases.begin()
        return found

    def _generate_single_turn(self, *args, **kwargs):
        pauses.suspend_nccl()
        phases.begin()
        found = super()._generate_single_turn(*args, **kwargs)
        phases.end("generate")
        pauses.resume_nccl()
        # The scores need the reference model; the optimizer waits for its step.
        pauses.resume("reference")
        phases.begin()
        return found


class Steps(TrainerCallback):
    def __init__(self) -> None:
        self.moments: list[float] = []

    def on_step_end(self, _args, state, _control, **_):
        self.moments.append(time.perf_counter())
        if state.global_step == WARM_UP:
            phases.counts = True
            if memory:
                memory.wait_for_planning()


def reward(completion_ids, **_):
    """Prefer many unlike words."""
    return [len(set(ids)) / max(1, len(ids)) + sum(ids) % 7 / 10 for ids in completion_ids]


def dataset_of(prompts):
    """Make a data set with a name, for not every pair of datasets and pyarrow computes a digest."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    return Dataset(InMemoryTable.from_pydict({"prompt": prompts}), fingerprint="prompts")


def main() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    draw = random.Random(0)
    prompts = [" ".join(draw.choices(WORDS, k=draw.randint(8, 32))) for _ in range(256)]
    steps = Steps()
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=f"{folder}/out",
            per_device_train_batch_size=asked.batch,
            num_generations=asked.batch,
            max_completion_length=asked.completion,
            max_steps=asked.steps,
            beta=0.04,
            learning_rate=1e-5,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            optim="adamw_torch_fused" if is_cuda else "adamw_torch",
            bf16=is_cuda,
            use_cpu=not is_cuda,
            seed=0,
            disable_tqdm=True,
            use_vllm=False,
            ddp_find_unused_parameters=False,
            generation_kwargs={"min_new_tokens": asked.completion},
        )
        callbacks: list[TrainerCallback] = [steps]
        planned = None
        if memory and is_cuda:
            from gpu_runtime.integrations import PlannedTrainerCallback

            planned = PlannedTrainerCallback(memory)
            # Its step ends before the figures are read.
            callbacks.insert(0, planned)
        trainer = Paused(
            model=str(asked.folder),
            args=config,
            reward_funcs=reward,
            processing_class=made_tokenizer(),
            train_dataset=dataset_of(prompts),
            callbacks=callbacks,
        )
        if memory:
            device = next(trainer.ref_model.parameters()).device
            trainer.ref_model.to("cpu")
            with memory.tagged("reference"):
                trainer.ref_model.to(device)
            pauses.known.add("reference")
        trainer.train()
        phases.end("update")
    times = [after - before for before, after in pairwise(steps.moments)]
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    # GRPO's losses are near 0, so the weights tell whether two runs agree.
    digest = hashlib.sha256()
    for weight in trainer.model.parameters():
        digest.update(weight.detach().float().cpu().numpy().tobytes())
    report = memory.report() if memory else None
    its = trainer.model.config
    line = {
        "program": f"grpo {its.hidden_size} x {its.num_hidden_layers}",
        "allocator": asked.allocator,
        "rank": RANK,
        "parameters": sum(one.numel() for one in trainer.model.parameters()),
        "given": {
            tag: {"most": max(its), "least": min(its), "times": len(its)}
            for tag, its in pauses.given.items()
        },
        "nccl": pauses.nccl,
        "phases": phases.found,
        "seconds": {name: round(median(its), 4) for name, its in pauses.seconds.items()},
        "step_ms": round(1e3 * median(times[WARM_UP:] or times or [0]), 1),
        "losses": losses,
        "weights": digest.hexdigest()[:16],
    }
    if report:
        line |= {
            "pytorch_said": report.pytorch_bytes,
            "steps": report.steps,
            "planned_steps": report.planned_steps,
            "status": report.status,
            "reason": report.reason,
        }
    with asked.out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(line["program"], asked.allocator, RANK, "ended", file=sys.stderr)


if asked.allocator == "prepare":
    prepare()
    sys.exit()
main()
if distributed.is_initialized():
    distributed.destroy_process_group()
