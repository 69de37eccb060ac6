"""Training on several GPUs, a process for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from evaluation.programs.language_models import checkpointed, llama, train_decoder, words
from gpu_runtime.training.scene import Scene

# A process that has waited so long for another one ends with an error. A guess.
PATIENCE = timedelta(seconds=60)
BATCH, LENGTH = 4, 2048


def data_parallel(scene: Scene) -> nn.Module:
    """Give each GPU a copy of the model; gradients are averaged while the backward pass runs."""
    with _group(scene):
        model = llama(scene, 2048)
        devices = [scene.rank] if scene.is_cuda else None
        _train(scene, DistributedDataParallel(model, device_ids=devices))
    return model


def sharded(scene: Scene) -> nn.Module:
    """Shard every layer over the GPUs; a layer is gathered before it runs."""
    return _sharded(scene, is_checkpointed=False)


def sharded_checkpointed(scene: Scene) -> nn.Module:
    """Shard every layer over the GPUs, with activation checkpointing."""
    return _sharded(scene, is_checkpointed=True)


def _sharded(scene: Scene, *, is_checkpointed: bool) -> nn.Module:
    with _group(scene):
        model = llama(scene, 1536)
        if is_checkpointed:
            checkpointed(model)
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        layers: Any = model.get_submodule("model.layers")
        for part in (*layers, model):
            fully_shard(part, mp_policy=policy)
        _train(scene, model)
    return model


def _train(scene: Scene, model: nn.Module) -> None:
    train_decoder(
        scene, model, lambda: scene.tokens(BATCH, scene.length(LENGTH), words(scene, 32_000))
    )


@contextmanager
def _group(scene: Scene) -> Iterator[None]:
    """Join the process group within this context; the environment has its address."""
    kind = "nccl" if scene.is_cuda else "gloo"
    distributed.init_process_group(
        kind,
        rank=scene.rank,
        world_size=scene.ranks,
        timeout=PATIENCE,
        device_id=scene.device if scene.is_cuda else None,
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()
