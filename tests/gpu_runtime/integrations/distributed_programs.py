"""Programs of two processes, each with a GPU of its own and with its memory planned there.

``python -m torch.distributed.run --standalone --nproc-per-node 2 -m
tests.gpu_runtime.integrations.distributed_programs NAME native|planned cuda|cpu FOLDER`` writes a
file of JSON for each process into the folder.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from gpu_runtime.integrations import callback_step
from tests.gpu_runtime.allocator.gpu_programs import digest, model_of
from tests.gpu_runtime.integrations.programs import (
    STEPS,
    Planned,
    Run,
    lightning,
    train_once,
    trainer,
)


@contextmanager
def process_group(run: Run) -> Iterator[int]:
    """Within this context the processes know one another; yield the number of this one."""
    if run.device.type == "cuda":
        torch.cuda.set_device(run.device)
    distributed.init_process_group("nccl" if run.device.type == "cuda" else "gloo")
    yield distributed.get_rank()
    distributed.destroy_process_group()


class Checkpointed(nn.Module):
    """Makes the activations of each layer once more in the backward pass."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers.children():
            x = checkpoint(layer, x, use_reentrant=False)
        return x


def fully_sharded(run: Run) -> None:
    run.install()
    with process_group(run) as rank:
        mesh = init_device_mesh(run.device.type, (2,))
        layers = model_of("transformer").to(run.device)
        for layer in layers.children():
            fully_shard(layer, mesh=mesh)
        model = fully_shard(Checkpointed(layers), mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for number in range(STEPS):
            with run.step():
                train_once(run, model, optimizer, run.batch(2 * number + rank))
        run.parameters = digest(parameter.to_local() for parameter in model.parameters())


PROGRAMS = {program.__name__: program for program in (fully_sharded, trainer, lightning)}

if __name__ == "__main__":
    name, allocator, device, folder = sys.argv[1:]
    # What deterministic algorithms ask of cuBLAS.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    rank = os.environ["RANK"]
    run = Run(allocator, f"cuda:{rank}" if device == "cuda" else "cpu", folder)
    vars(callback_step)["PlannedMemory"] = Planned
    with run.simulation:
        PROGRAMS[name](run)
    Path(folder, f"{rank}.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
