"""Trainings on two or more GPUs: a Llama of 10 layers in three ways, two of them measured on two
H100, and a pipeline."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM


def make_sharded(batch: int = 8) -> Callable[[], None]:
    """Shard every layer, and compute activations again."""
    model = _llama()
    model.gradient_checkpointing_enable()
    return _training(_shard(model), batch)


def make_split(batch: int = 4) -> Callable[[], None]:
    """Split the products of every layer over two GPUs, and shard the halves over all such pairs."""
    shape = (int(os.environ["WORLD_SIZE"]) // 2, 2)
    mesh = init_device_mesh("cuda", shape, mesh_dim_names=("shards", "halves"))
    model = _llama()
    for layer in model.model.layers:
        plan: dict[str, Any] = {
            name: RowwiseParallel() if name.endswith(("o_proj", "down_proj")) else ColwiseParallel()
            for name, _ in layer.named_modules()
            if name.endswith("_proj")
        }
        parallelize_module(layer, mesh["halves"], plan)
    return _training(_shard(model, mesh=mesh["shards"]), batch)


def make_copied(batch: int = 4) -> Callable[[], None]:
    """Give each GPU a copy of the model."""
    return _training(
        DistributedDataParallel(_llama(), device_ids=[int(os.environ["LOCAL_RANK"])]), batch
    )


def make_stages(microbatches: int = 8, words: int = 32_000) -> Callable[[], None]:
    """Give the first GPU the words of a batch, each one more layers, and the last the scores."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    layer: Any = nn.TransformerEncoderLayer
    layers: list[nn.Module] = [
        layer(1536, 12, 6144, dropout=0.0, batch_first=True) for _ in range(4 * (1 + rank))
    ]
    if rank == 0:
        layers.insert(0, nn.Embedding(words, 1536))
    if rank == ranks - 1:
        layers.append(nn.Linear(1536, words))
    part = nn.Sequential(*layers).to("cuda")

    def loss(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())

    stage = PipelineStage(part, rank, ranks, torch.device("cuda"))
    schedule = Schedule1F1B(stage, microbatches, loss_fn=loss)
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        tokens = torch.zeros(microbatches, 1024, dtype=torch.int64).to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            given = (tokens,) if rank == 0 else ()
            schedule.step(*given, target=tokens if rank == ranks - 1 else None)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


# PyTorch's types differ between its versions.
def _llama() -> Any:
    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=1536,
        intermediate_size=4096,
        num_hidden_layers=10,
        num_attention_heads=16,
        num_key_value_heads=4,
    )
    model: Any = LlamaForCausalLM(config)
    return model.to("cuda").train()


def _shard(model: Any, **how: Any) -> Any:
    shard: Any = fully_shard
    for part in (*model.model.layers, model):
        shard(part, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32), **how)
    return model


def _training(model: Any, batch: int) -> Callable[[], None]:
    # A fused kernel takes tensors of one mesh.
    of_mesh: dict[Any, list[Any]] = {}
    for weight in model.parameters():
        of_mesh.setdefault(getattr(weight, "device_mesh", None), []).append(weight)
    groups = [{"params": weights} for weights in of_mesh.values()]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, fused=True)

    def step() -> None:
        tokens = torch.zeros(batch, 1024, dtype=torch.int64).to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss / 1
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
