"""Programs that train on two GPUs, each for a process of its own: an allocator is installed once.

``python -m tests.gpu_runtime.allocator.two_gpu_programs NAME native|planned|plain`` prints one line
of JSON; *plain* is planned memory by ``arena="cudaMalloc"``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import distributed, multiprocessing, nn

from gpu_runtime import PlannedMemory
from tests.gpu_runtime.allocator.gpu_programs import digest, model_of

STEPS = 12


def one_process(allocator: str) -> dict[str, Any]:
    """A model whose halves lie on two GPUs: activations and their gradients go across."""
    memory = _install(allocator, 0)
    torch.manual_seed(0)
    halves = [model_of("transformer").to(f"cuda:{device}") for device in range(2)]
    parameters = [parameter for half in halves for parameter in half.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    losses = []
    for number in range(STEPS):
        inputs = torch.randn(4, 64, 256, generator=torch.Generator().manual_seed(number))
        with memory.step() if memory else nullcontext():
            loss = halves[1](halves[0](inputs.to("cuda:0")).to("cuda:1")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            del loss
    return _result(memory, losses, nn.ModuleList(halves))


def one_process_a_gpu(allocator: str) -> dict[str, Any]:
    """A model that each GPU has a copy of: gradients are added up by NCCL."""
    multiprocessing.set_start_method("spawn")
    with tempfile.TemporaryDirectory() as folder:
        answers = multiprocessing.SimpleQueue()
        spawned = multiprocessing.spawn(
            _copy_of_the_model, (allocator, f"file://{folder}/meeting", answers), 2, join=False
        )
        found = dict(answers.get() for _ in range(2))
        while not spawned.join():
            pass
    return {"ranks": [found[0], found[1]]}


def _copy_of_the_model(rank: int, allocator: str, meeting: str, answers: Any) -> None:
    memory = _install(allocator, rank)
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=meeting, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = model_of("mlp").cuda()
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(parallel.parameters())
    losses = []
    for number in range(STEPS):
        generator = torch.Generator().manual_seed(2 * number + rank)
        inputs = torch.randn(64, 256, generator=generator)
        with memory.step() if memory else nullcontext():
            loss = parallel(inputs.cuda()).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            del loss
    answers.put((rank, _result(memory, losses, model)))
    distributed.destroy_process_group()


def _install(allocator: str, device: int) -> PlannedMemory | None:
    torch.use_deterministic_algorithms(True)
    if allocator == "native":
        return None
    arena: Literal["vmm", "cudaMalloc"] = "cudaMalloc" if allocator == "plain" else "vmm"
    memory = PlannedMemory(planner="auto", time_limit=5.0, device=device, arena=arena)
    memory.install()
    return memory


def _result(memory: PlannedMemory | None, losses: list[float], model: nn.Module) -> dict[str, Any]:
    return {
        "losses": [loss.hex() for loss in losses],
        "parameters": digest(model.parameters()),
        "report": memory.report().to_json() if memory else None,
    }


PROGRAMS = {program.__name__: program for program in (one_process, one_process_a_gpu)}

if __name__ == "__main__":
    # What deterministic algorithms ask of cuBLAS.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    print(json.dumps(PROGRAMS[sys.argv[1]](sys.argv[2])))
