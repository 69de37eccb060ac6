"""Programs that train on two GPUs, each for a process of its own: an allocator is installed once.

``python -m tests.gpu_runtime.allocator.two_gpu_programs NAME native|planned|plain`` prints one line
of JSON; *plain* is planned memory by ``arena="cudaMalloc"``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, distributed, multiprocessing, nn

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
    return _on_both(_copy_of_the_model, allocator)


def pause_of_one(allocator: str) -> dict[str, Any]:
    """The same; after half of the steps the first process pauses while the other works alone."""
    return _on_both(_copy_with_a_pause, allocator)


def shared_by_ipc(allocator: str) -> dict[str, Any]:
    """A process reads the output of the other one's model, in a step of both."""
    return _on_both(_reader_and_owner, allocator)


def _on_both(program: Callable[..., None], allocator: str) -> dict[str, Any]:
    multiprocessing.set_start_method("spawn")
    with tempfile.TemporaryDirectory() as folder:
        answers, tensors = multiprocessing.SimpleQueue(), multiprocessing.Queue()
        spawned = multiprocessing.spawn(
            program, (allocator, f"file://{folder}/meeting", answers, tensors), 2, join=False
        )
        found = dict(answers.get() for _ in range(2))
        while not spawned.join():
            pass
    return {"ranks": [found[0], found[1]]}


@contextmanager
def _joined(rank: int, meeting: str) -> Iterator[None]:
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=meeting, rank=rank, world_size=2)
    yield
    distributed.destroy_process_group()


class _Training:
    """A model whose gradients both GPUs add up, and the steps taken so far."""

    def __init__(self, rank: int, memory: PlannedMemory | None) -> None:
        torch.manual_seed(0)
        self.rank, self.memory = rank, memory
        self.model = model_of("mlp").cuda()
        self.parallel = nn.parallel.DistributedDataParallel(self.model, device_ids=[rank])
        self.optimizer = torch.optim.AdamW(self.parallel.parameters())
        self.losses: list[float] = []

    def take_steps(self, count: int, look_at: Callable[[Tensor], None] = lambda _: None) -> None:
        """Take steps; each output is looked at before its backward pass."""
        for _ in range(count):
            generator = torch.Generator().manual_seed(2 * len(self.losses) + self.rank)
            inputs = torch.randn(64, 256, generator=generator)
            with self.memory.step() if self.memory else nullcontext():
                output = self.parallel(inputs.cuda())
                look_at(output.detach())
                loss = output.square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.losses.append(loss.item())
                del output, loss

    def result(self) -> dict[str, Any]:
        return _result(self.memory, self.losses, self.model)


def _copy_of_the_model(rank: int, allocator: str, meeting: str, answers: Any, _: Any) -> None:
    memory = _install(allocator, rank)
    with _joined(rank, meeting):
        training = _Training(rank, memory)
        training.take_steps(STEPS)
        answers.put((rank, training.result()))


def _copy_with_a_pause(rank: int, allocator: str, meeting: str, answers: Any, _: Any) -> None:
    memory = _install(allocator, rank)
    with _joined(rank, meeting):
        training = _Training(rank, memory)
        training.take_steps(STEPS // 2)
        distributed.barrier()
        if rank == 1:
            # Its own work, without the other process.
            own = torch.randn(512, 512, generator=torch.Generator().manual_seed(7)).cuda()
            for _ in range(50):
                own = (own @ own).tanh()
            training.losses.append(own.sum().item())
            del own
        else:
            free = torch.cuda.mem_get_info()[0]
            paused = memory.pause() if memory else 0
            given = torch.cuda.mem_get_info()[0] - free
            training.losses.append(0.0)
        distributed.barrier()
        if rank == 0 and memory:
            memory.resume()
        training.take_steps(STEPS // 2)
        result = training.result()
        if rank == 0:
            result.update(paused=paused, given=given)
        answers.put((rank, result))


def _reader_and_owner(rank: int, allocator: str, meeting: str, answers: Any, tensors: Any) -> None:
    memory = _install(allocator, rank)
    with _joined(rank, meeting):
        training = _Training(rank, memory)

        def share(output: Tensor) -> None:
            if rank == 0:
                torch.cuda.synchronize()
                tensors.put(output)
            else:
                others = tensors.get()
                training.losses.append(others.sum().item())
                del others
            distributed.barrier()

        training.take_steps(STEPS - 1)
        training.take_steps(1, share)
        answers.put((rank, training.result()))


def _install(allocator: str, device: int) -> PlannedMemory | None:
    torch.use_deterministic_algorithms(True)
    if allocator == "native":
        return None
    arena: Literal["vmm", "cudaMalloc"] = "cudaMalloc" if allocator == "plain" else "vmm"
    # So that which steps are planned does not hang on how long the planner takes.
    memory = PlannedMemory(time_limit=5.0, device=device, arena=arena, _planning="between")
    memory.install()
    return memory


def _result(memory: PlannedMemory | None, losses: list[float], model: nn.Module) -> dict[str, Any]:
    return {
        "losses": [loss.hex() for loss in losses],
        "parameters": digest(model.parameters()),
        "report": memory.report().to_json() if memory else None,
    }


PROGRAMS = {
    program.__name__: program
    for program in (one_process, one_process_a_gpu, pause_of_one, shared_by_ipc)
}

if __name__ == "__main__":
    # What deterministic algorithms ask of cuBLAS.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    print(json.dumps(PROGRAMS[sys.argv[1]](sys.argv[2])))
