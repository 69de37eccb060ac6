"""Training on several GPUs, a process for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from evaluation.programs.language_models import checkpointed, llama, train_decoder, words
from evaluation.programs.mixtures_of_experts import LoopOverExperts, sparse_decoder, train_sparse
from gpu_runtime.training.run_processes import MEETING_VARIABLE
from gpu_runtime.training.scene import Scene

# A process that has waited so long for another one ends with an error. A guess.
PATIENCE = timedelta(seconds=60)
BATCH, LENGTH = 4, 2048
STAGES_EACH, MICROBATCHES = 2, 8
# Widths of models that are copied to each GPU, and of those that the GPUs share. With them, the
# processes of six allocators fit side by side on GPUs of 80 GB.
COPIED_WIDTH, SHARDED_WIDTH = 1024, 1536
# The products of a layer whose outputs are split, and those whose inputs are.
BY_OUTPUT = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
BY_INPUT = ("o_proj", "down_proj")


def data_parallel(scene: Scene) -> nn.Module:
    """Give each GPU a copy of the model; gradients are averaged while the backward pass runs."""
    with _group(scene):
        model = llama(scene, COPIED_WIDTH)
        _train(scene, _copied(scene, model))
    return model


def optimizer_sharded(scene: Scene) -> nn.Module:
    """Give each GPU a copy of the model, and half of the optimizer's states."""
    with _group(scene):
        model = llama(scene, COPIED_WIDTH)
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.AdamW, lr=1e-4, fused=True
        )
        _train(scene, _copied(scene, model), optimizer)
    return model


def tensor_parallel(scene: Scene) -> nn.Module:
    """Split the products of every layer over the GPUs, which see the same batch."""
    with _group(scene):
        model = llama(scene, SHARDED_WIDTH)
        _split(model, init_device_mesh(scene.device.type, (scene.ranks,)))
        train_decoder(scene, model, lambda: _same_tokens(scene), optimizer=_adamw(model))
    return model


def sharded_and_split(scene: Scene) -> nn.Module:
    """Split the products of every layer over two GPUs, which see the same batch; shard the halves.

    Each pair of GPUs gets a batch of its own.
    """
    with _group(scene):
        model = llama(scene, SHARDED_WIDTH)
        shape = (scene.ranks // 2, 2)
        mesh = init_device_mesh(scene.device.type, shape, mesh_dim_names=("shards", "halves"))
        _split(model, mesh["halves"])
        _sharded(model, mesh=mesh["shards"])
        pair = mesh.get_group("halves")
        train_decoder(scene, model, lambda: _same_tokens(scene, pair=pair), optimizer=_adamw(model))
    return model


def expert_parallel(scene: Scene) -> nn.Module:
    """Give each GPU a part of the experts, to which tokens travel; shard all other parameters."""
    with _group(scene):
        # All GPUs draw the same weights, and keep the experts that are theirs.
        model = sparse_decoder(scene)
        layers: Any = model.layers
        for layer in layers:
            layer.experts = ExchangedExperts(layer.experts, scene.rank, scene.ranks)
        model.to(scene.device)
        own = {each for layer in layers for each in layer.experts.experts.parameters()}
        _sharded(model, "layers", ignored_params=own)
        # Gradients of experts are sums over the GPUs and not means, which AdamW does not mind.
        train_sparse(scene, model, _adamw(model))
    return model


def sharded(scene: Scene) -> nn.Module:
    """Shard every layer over the GPUs; a layer is gathered before it runs."""
    with _group(scene):
        model = llama(scene, SHARDED_WIDTH)
        _train(scene, _sharded(model))
    return model


def sharded_checkpointed(scene: Scene) -> nn.Module:
    """Shard every layer over the GPUs, with activation checkpointing."""
    with _group(scene):
        model = llama(scene, SHARDED_WIDTH)
        _train(scene, _sharded(checkpointed(model)))
    return model


def sharded_offloaded(scene: Scene) -> nn.Module:
    """Shard every layer, and keep shards and optimizer on the host while a layer does not run."""
    with _group(scene):
        model = llama(scene, SHARDED_WIDTH)
        _train(scene, _sharded(model, offload_policy=CPUOffloadPolicy(pin_memory=scene.is_cuda)))
    return model


def interleaved_pipeline(scene: Scene) -> nn.Module:
    """Give each GPU two stages, not neighbours, of a pipeline that takes a batch in eight parts."""
    last = scene.ranks - 1
    with _group(scene):
        count = STAGES_EACH * scene.ranks
        numbers = range(scene.rank, count, scene.ranks)
        kept = nn.ModuleList(_stage(scene, number, count) for number in numbers).to(scene.device)
        schedule = ScheduleInterleaved1F1B(
            [
                PipelineStage(part, number, count, scene.device)
                for part, number in zip(kept, numbers, strict=True)
            ],
            n_microbatches=scene.batch(MICROBATCHES),
            loss_fn=_loss_of_words,
        )
        optimizer = scene.adamw(kept.parameters())
        for _ in scene.rounds:
            tokens = _same_tokens(scene, MICROBATCHES)
            losses: list[Tensor] = []
            with scene.step():
                with scene.autocast():
                    if scene.rank == last:
                        schedule.step(target=tokens, losses=losses)
                    else:
                        schedule.step(tokens)
                loss = (
                    torch.stack(losses).mean() if losses else torch.zeros((), device=scene.device)
                )
                distributed.broadcast(loss, last)
                optimizer.step()
                optimizer.zero_grad()
                scene.note(loss)
    return kept


def _stage(scene: Scene, number: int, count: int) -> nn.Module:
    """Return a part of a transformer's layers; the first embeds words, the last scores them."""
    width, vocabulary = scene.wide(SHARDED_WIDTH, 32), words(scene, 32_000)
    layers: list[nn.Module] = [
        nn.TransformerEncoderLayer(
            width, scene.wide(12, 2), 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        for _ in range(scene.layers(3))
    ]
    if number == 0:
        layers.insert(0, nn.Embedding(vocabulary, width))
    if number == count - 1:
        layers.append(nn.Linear(width, vocabulary))
    return nn.Sequential(*layers)


def _loss_of_words(scores: Tensor, tokens: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())


class ExchangedExperts(nn.Module):
    """The experts of this GPU, to which all GPUs send the tokens that chose them."""

    def __init__(self, all_of_them: LoopOverExperts, rank: int, ranks: int) -> None:
        super().__init__()
        self.chosen, self.router = all_of_them.chosen, all_of_them.router
        each = len(all_of_them.experts) // ranks
        self.experts = all_of_them.experts[rank * each : (rank + 1) * each]
        self.ranks = ranks

    def forward(self, x: Tensor) -> Tensor:
        """Return for each token the weighted sum of the outputs of its chosen experts."""
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(flat).softmax(-1).topk(self.chosen)
        order = chosen.flatten().argsort(stable=True)
        # Rows by expert: those that go away, and those that come for each own expert from each GPU.
        sent = torch.bincount(chosen.flatten(), minlength=self.ranks * len(self.experts))
        received = torch.empty_like(sent)
        distributed.all_to_all_single(received, sent)
        there, here = (rows.view(self.ranks, -1).sum(1).tolist() for rows in (sent, received))
        token = order // self.chosen
        arrived = _exchanged(flat[token], there, here)
        numbers = torch.arange(len(self.experts), device=x.device).repeat(self.ranks)
        by_expert = numbers.repeat_interleave(received).argsort(stable=True)
        parts = torch.split(arrived[by_expert], received.view(self.ranks, -1).sum(0).tolist())
        computed = torch.cat([own(part) for own, part in zip(self.experts, parts, strict=True)])
        returned = _exchanged(computed[by_expert.argsort()], here, there)
        weighted = returned * weights.flatten()[order, None]
        out = torch.zeros_like(flat).index_add_(0, token, weighted.to(flat.dtype))
        return out.view_as(x)


def _exchanged(rows: Tensor, sent: list[int], received: list[int]) -> Tensor:
    """Send so many rows to each GPU, and return those that come from each; so do gradients."""
    all_gpus: Any = distributed.group.WORLD
    return all_to_all_single_autograd(rows, received, sent, all_gpus)


def _same_tokens(
    scene: Scene, batch: int = BATCH, pair: distributed.ProcessGroup | None = None
) -> Tensor:
    """Return tokens that are the same on all GPUs, or on each pair of GPUs."""
    tokens = _tokens(scene, batch)
    distributed.broadcast(tokens, group=pair, group_src=0)
    return tokens


def _split(model: nn.Module, mesh: DeviceMesh) -> None:
    """Split the products of every layer over the GPUs of a mesh."""
    layers: Any = model.get_submodule("model.layers")
    for layer in layers:
        plan: dict[str, ParallelStyle] = {}
        for name, _ in layer.named_modules():
            if name.endswith(BY_OUTPUT):
                plan[name] = ColwiseParallel()
            elif name.endswith(BY_INPUT):
                plan[name] = RowwiseParallel()
        parallelize_module(layer, mesh, plan)


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of parameters that lie on several meshes, or on none."""
    # A fused kernel takes tensors of one mesh.
    of_mesh: dict[DeviceMesh | None, list[Tensor]] = {}
    for parameter in model.parameters():
        of_mesh.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    groups: list[dict[str, Any]] = [{"params": parameters} for parameters in of_mesh.values()]
    return torch.optim.AdamW(groups, lr=1e-4, fused=True)


def _sharded(model: nn.Module, layers_name: str = "model.layers", **how: Any) -> nn.Module:
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    layers: Any = model.get_submodule(layers_name)
    for part in (*layers, model):
        fully_shard(part, mp_policy=policy, **how)
    return model


def _copied(scene: Scene, model: nn.Module) -> nn.Module:
    devices = [scene.rank] if scene.is_cuda else None
    return DistributedDataParallel(model, device_ids=devices)


def _tokens(scene: Scene, batch: int = BATCH) -> Tensor:
    return scene.tokens(batch, scene.length(LENGTH), words(scene, 32_000))


def _train(scene: Scene, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
    train_decoder(scene, model, lambda: _tokens(scene), optimizer=optimizer)


@contextmanager
def _group(scene: Scene) -> Iterator[None]:
    """Join the process group within this context; the environment has its address."""
    kind = "nccl" if scene.is_cuda else "gloo"
    distributed.init_process_group(
        kind,
        init_method=os.environ[MEETING_VARIABLE],
        rank=scene.rank,
        world_size=scene.ranks,
        timeout=PATIENCE,
        device_id=scene.device if scene.is_cuda else None,
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()
