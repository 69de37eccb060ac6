"""Trainings whose memory was reported in public, with their configurations."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

STEPS = 3
OPTIMIZERS: dict[str, Any] = {
    "sgd": partial(torch.optim.SGD, lr=1e-3),
    "adamw": partial(torch.optim.AdamW, foreach=False),
    "adamw-foreach": partial(torch.optim.AdamW, foreach=True),
}
# The outputs that the layers of `fully_sharded` keep, beside every other matrix product.
PRODUCT = torch.ops.aten.mm.default
ATTENTION = (
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
)


def seven_billion(optimizer: str, in_backward: bool = False, made_in: str = "bfloat16") -> None:
    """Train all of 7 billion parameters in 16 bits on one GPU; `made_in` is their first dtype."""
    config = LlamaConfig(intermediate_size=11008, vocab_size=32000, use_cache=False)
    torch.set_default_dtype(getattr(torch, made_in))
    with torch.device("cuda"):
        model: Any = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model = model.to(torch.bfloat16)
    model.gradient_checkpointing_enable()
    model.train()
    parameters = list(model.parameters())
    groups = [[parameter] for parameter in parameters] if in_backward else [parameters]
    optimizers = [OPTIMIZERS[optimizer](group) for group in groups]

    def update(its: torch.optim.Optimizer, _: Tensor | None = None) -> None:
        its.step()
        its.zero_grad()

    if in_backward:
        for parameter, its in zip(parameters, optimizers, strict=True):
            parameter.register_post_accumulate_grad_hook(partial(update, its))
    for _ in range(STEPS):
        tokens = torch.randint(0, 32000, (2, 512), device="cuda")
        model(input_ids=tokens, labels=tokens).loss.backward()
        if not in_backward:
            update(optimizers[0])


def fully_sharded(batch: int = 2, length: int = 8192) -> None:
    """Train Llama 3.1 of 8 billion parameters under FSDP2, recomputing all but some operators."""
    distributed.init_process_group()
    mesh = init_device_mesh("cuda", (distributed.get_world_size(),))
    config = LlamaConfig(
        intermediate_size=14336, num_key_value_heads=8, vocab_size=128256,
        max_position_embeddings=length, use_cache=False,
    )  # fmt: skip
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    layers: nn.ModuleList = model.model.layers
    for number, layer in enumerate(layers):
        layers[number] = checkpoint_wrapper(layer, context_fn=_kept, preserve_rng_state=False)
        fully_shard(layers[number], mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(STEPS):
        tokens = torch.randint(0, 128256, (batch, length), device="cuda")
        scores = model(input_ids=tokens).logits
        loss = functional.cross_entropy(scores.flatten(0, 1).float(), tokens.flatten(0, 1))
        del scores
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def _kept() -> Any:
    make: Any = create_selective_checkpoint_contexts
    seen: Counter[bool] = Counter()

    def policy(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        seen[context.is_recompute] += operator is PRODUCT
        is_second = operator is PRODUCT and seen[context.is_recompute] % 2 == 0
        is_kept = operator in (PRODUCT, *ATTENTION) and not is_second
        return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE

    return make(policy)


class RandomTexts(torch.utils.data.Dataset[dict[str, Tensor]]):
    """Texts of 512 words, of two classes."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": torch.randint(100, 30000, (512,)), "labels": torch.tensor(index % 2)}


def sequence_classes(**options: Any) -> None:
    """Train BERT-large by transformers' trainer, with options of ``TrainingArguments``."""
    make: Any = BertConfig
    config = make(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        attn_implementation="eager",
    )  # fmt: skip
    arguments = TrainingArguments("unused", report_to="none", save_strategy="no", **options)
    model: Any = BertForSequenceClassification(config)
    Trainer(model=model.to("cuda"), args=arguments, train_dataset=RandomTexts()).train()
