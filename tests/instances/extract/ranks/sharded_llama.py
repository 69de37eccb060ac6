"""A Llama of 10 layers, fully sharded; PyTorch's allocator was recorded on one of two H100."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM


def make_step(batch: int = 8, length: int = 1024) -> Callable[[], None]:
    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=1536,
        intermediate_size=4096,
        num_hidden_layers=10,
        num_attention_heads=16,
        num_key_value_heads=4,
    )
    # PyTorch's types differ between its versions.
    model: Any = LlamaForCausalLM(config)
    model.gradient_checkpointing_enable()
    model.to("cuda").train()
    shard: Any = fully_shard
    for part in (*model.model.layers, model):
        shard(part, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        tokens = torch.zeros(batch, length, dtype=torch.int64).to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss / 1
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
