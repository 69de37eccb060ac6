"""Programs that train on a GPU, each for a process of its own: an allocator is installed once.

``python -m tests.gpu_runtime.allocator.gpu_programs NAME [ARGUMENT ...]`` prints one line of JSON.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpu_runtime import PlannedMemory

STEPS = 10
INCIDENT_AT = 6
ALIVE: list[Tensor] = []


class Attention(nn.Module):
    """One block of a transformer, of operators that are deterministic."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))
        weight = torch.softmax(query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5, -1)
        x = x + self.out((weight @ value).transpose(1, 2).reshape(batch, length, width))
        return x + functional.dropout(self.mlp(x), 0.1, training=True)


def model_of(name: str) -> nn.Module:
    if name == "mlp":
        return nn.Sequential(
            *(layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU()))
        )
    return nn.Sequential(Attention(256, 8), Attention(256, 8), nn.LayerNorm(256))


def digest(tensors: Iterator[Tensor]) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().cpu().numpy().tobytes())
    return found.hexdigest()


class OfOurOwnError(Exception):
    """Ends a step in its middle."""


def too_much() -> None:
    """Ask for more than the device has."""
    torch.empty(torch.cuda.mem_get_info()[1] + (1 << 30), dtype=torch.uint8, device="cuda")


class TooMuchInBackward(torch.autograd.Function):
    """Asks for more than the device has, in autograd's thread."""

    @staticmethod
    def forward(_context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> Tensor:
        too_much()
        return gradient


def install(planned: bool) -> PlannedMemory | None:
    if not planned:
        return None
    # So that which steps are planned does not hang on how long the planner takes.
    memory = PlannedMemory(planner="auto", time_limit=5.0, _planning="between")
    memory.install()
    return memory


def train(allocator: str, name: str, incident: str) -> dict[str, Any]:
    """Train some steps; in one of them there may be an incident."""
    memory = install(allocator == "planned")
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    model = model_of(name).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    host = torch.randn(STEPS, 48, 64, 256)
    steps: list[dict[str, str]] = []
    unexpected: list[int] = []
    errors: list[str] = []

    def step(number: int) -> Tensor:
        happens = incident if number == INCIDENT_AT else ""
        rows = 48 if happens == "batch" else 32
        batch = host[number, :rows].pin_memory().to("cuda", non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        out = model(batch)
        if happens == "exception":
            raise OfOurOwnError
        if happens == "out of memory":
            too_much()
        if happens == "out of memory in backward":
            out = TooMuchInBackward.apply(out)
        loss = functional.mse_loss(out, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    loss = torch.zeros(())
    for number in range(STEPS):
        try:
            with memory.step() if memory else contextlib.nullcontext():
                loss = step(number)
        except (OfOurOwnError, torch.OutOfMemoryError) as error:
            errors.append(type(error).__name__)
            optimizer.zero_grad(set_to_none=True)
        if incident == "empty cache" and number == INCIDENT_AT:
            torch.cuda.empty_cache()
        parameters = list(model.parameters())
        steps.append(
            {
                "loss": digest(iter([loss])),
                "gradients": digest(p.grad for p in parameters if p.grad is not None),
                "parameters": digest(iter(parameters)),
            }
        )
        unexpected.append(memory.report().unexpected_requests if memory else 0)
    return {
        "steps": steps,
        "errors": errors,
        "unexpected": unexpected,
        "report": memory.report().to_json() if memory else None,
    }


class Witness(torch.autograd.Function):
    """Writes down in which thread its backward runs, and asks for memory there."""

    threads: ClassVar[set[int]] = set()
    asks_for_more: ClassVar[bool] = False

    @staticmethod
    def forward(_context: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> Tensor:
        Witness.threads.add(threading.get_ident())
        if Witness.asks_for_more:
            torch.empty(12_345, device="cuda")
        return gradient * 2


def backward_thread() -> dict[str, Any]:
    """Autograd's own thread is served too, and has no place in the program."""
    memory = install(True)
    assert memory is not None
    model = model_of("mlp").cuda()

    def step(loss_of: Callable[[Tensor], Tensor]) -> None:
        with memory.step():
            model.zero_grad(set_to_none=True)
            loss_of(Witness.apply(model(torch.ones(64, 256, device="cuda")))).backward()

    for _ in range(8):
        step(Tensor.sum)
    before = memory.report()
    # Each leaves the plan once: in the forward pass, then in the backward pass.
    step(lambda out: out.exp().square().sum())
    Witness.asks_for_more = True
    step(Tensor.sum)
    return {
        "own thread": threading.get_ident() not in Witness.threads and bool(Witness.threads),
        "planned steps": before.planned_steps,
        "places": [mismatch.where for mismatch in memory.report().mismatches],
    }


def side_stream() -> dict[str, Any]:
    """A late reader on another stream finds the bytes that were there when it was asked."""
    memory = install(True)
    assert memory is not None
    side = torch.cuda.Stream()
    # Sums of this type need no converted copy: the two tensors are all that is large, so that a
    # best plan has them share bytes.
    count = 1 << 21
    wrong, shared = [], []
    for number in range(12):
        with memory.step():
            current = torch.cuda.current_stream()
            x = torch.full((count,), number, dtype=torch.int64, device="cuda")
            place, x_bytes = x.data_ptr(), x.nbytes
            side.wait_stream(current)
            with torch.cuda.stream(side):
                torch.cuda._sleep(50_000_000)
                total = x.sum()
            x.record_stream(side)
            del x
            y = torch.full((count,), -1, dtype=torch.int64, device="cuda")
            shared.append(abs(y.data_ptr() - place) < x_bytes)
            current.wait_stream(side)
            if total.item() != number * count or y.sum().item() != -count:
                wrong.append(number)
            del y, total
    report = memory.report()
    planner = memory._planner
    assert planner is not None
    assert planner.planned is not None
    kinds = planner.planned.problem.kinds
    streams = {stream for kind in kinds for stream in kind.requests[:, 0].tolist()}
    return {
        "wrong": wrong,
        "shared in planned steps": all(shared[-report.planned_steps :]),
        "planned steps": report.planned_steps,
        "streams": len(streams),
    }


def empty_cache() -> dict[str, Any]:
    """What is free is given back to the device."""
    memory = install(True)
    assert memory is not None
    large = torch.ones(1 << 28, dtype=torch.uint8, device="cuda")
    del large
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    torch.cuda.empty_cache()
    return {"given back": torch.cuda.mem_get_info()[0] - before}


def exit_with_live_tensors() -> dict[str, Any]:
    """Tensors of the arena and of the heap are freed after the interpreter is gone."""
    memory = install(True)
    assert memory is not None
    model = model_of("transformer").cuda()
    for _ in range(12):
        with memory.step():
            ALIVE.clear()
            ALIVE.append(model(torch.ones(32, 64, 256, device="cuda")))
            ALIVE[0].sum().backward()
    report = memory.report()
    ALIVE.append(torch.ones(1000, device="cuda"))
    return {"planned steps": report.planned_steps, "escaping": report.escaping_requests}


PROGRAMS = {
    program.__name__: program
    for program in (
        train,
        backward_thread,
        side_stream,
        empty_cache,
        exit_with_live_tensors,
    )
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])))
