"""Programs under online allocators, each for a process of its own.

``python -m tests.gpu_runtime.allocator.pytorch.online_gpu_programs PROGRAM NAME`` prints one line
of JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gpu_runtime import OnlineMemory
from tests.gpu_runtime.allocator.pytorch.gpu_programs import MIB, block, sums

STEPS, WIDTH = 6, 1024


def installed(name: str) -> OnlineMemory:
    memory = OnlineMemory(name)
    memory.install()
    return memory


def network(device: str) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)]
    return nn.Sequential(*layers).to(device)


def train(device: str) -> str:
    """Return the digest of everything that steps with batches of several sizes computed."""
    model = network(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = hashlib.sha256()
    for step in range(STEPS):
        x = torch.randn(128 + 96 * (step % 3), WIDTH).to(device)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        found.update(loss.detach().cpu().numpy().tobytes())
    for parameter in model.parameters():
        found.update(parameter.detach().cpu().numpy().tobytes())
    return found.hexdigest()


def training(name: str) -> dict[str, Any]:
    """The same steps under PyTorch's allocator and an online one; the figures of the latter."""
    expected = train("cuda")
    torch.cuda.empty_cache()
    memory = installed(name)
    torch.cuda.reset_peak_memory_stats()
    same = train("cuda") == expected
    report, stats = memory.report(), torch.cuda.memory_stats()
    kept = [block(size) for size in (1, 3, 30)]
    del kept[1]
    held = sums()
    kept.clear()
    torch.cuda.empty_cache()
    after = sums()
    return {
        "same bits": same,
        "served": report.allocated_bytes > 0,
        "peak": stats["allocated_bytes.all.peak"] >= report.allocated_bytes,
        "reserved": report.reserved_bytes >= report.allocated_bytes,
        "device calls": sum(report.device_calls.values()) > 0,
        "device seconds": report.device_seconds > 0,
        "given back": memory.report().device_calls.keys() & {"release_pages", "release_plain"}
        != set(),
        "held": held,
        "after empty_cache": after,
    }


def graph(name: str) -> dict[str, Any]:
    """A graph is captured, memory beside it filled with NaN, and replayed."""
    installed(name)
    model = network("cuda")
    x = torch.randn(64, WIDTH, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x).square().mean().backward()
            model.zero_grad(set_to_none=True)
    torch.cuda.current_stream().wait_stream(side)
    # Freed while the stream captures, one of them with another stream at work.
    dying = [block(4), block(4)]
    dying[0].record_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        loss = model(x).square().mean()
        dying.clear()
        loss.backward()
    captured.replay()
    gradients = [one.grad for one in model.parameters()]
    assert all(one is not None for one in gradients)
    results: list[Tensor] = [loss, *(one for one in gradients if one is not None)]
    expected = [one.clone() for one in results]
    same = []
    for _ in range(3):
        torch.cuda.empty_cache()
        sizes = (1 << 10, 1 << 18, 1 << 24, 1 << 26)
        rest = [torch.full((size,), float("nan"), device="cuda") for size in sizes * 8]
        captured.replay()
        same.append(all(map(torch.equal, results, expected)))
        del rest
    return {"same bits": same, "held": sums()}


def out_of_memory(name: str) -> dict[str, Any]:
    """The error is PyTorch's, and idle memory of the online allocator goes to who needs it."""
    installed(name)
    found: dict[str, Any] = {}
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(total + (1 << 30), dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        found["error"] = str(error).splitlines()[0]
    found["errors counted"] = torch.cuda.memory_stats()["num_ooms"]
    most = torch.cuda.mem_get_info()[0] // MIB - 2048
    idle = block(most)
    del idle
    # More than the online allocator can have beside what it keeps, if that stayed.
    beside = block(most // 2)
    rest = block(most // 2 - 1024)
    rest.fill_(1)
    found["goes on"] = beside.numel() + rest.numel() <= total
    del beside, rest
    found["held"] = sums()
    return found


def streams(name: str) -> dict[str, Any]:
    """Memory that another stream reads late is nobody else's before that."""
    installed(name)
    side = torch.cuda.Stream()
    wrong = []
    for value in range(8):
        x = torch.full((4 * MIB,), value, dtype=torch.int64, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            total = x.sum()
        x.record_stream(side)
        del x
        filler = [torch.zeros(4 * MIB, dtype=torch.int64, device="cuda") for _ in range(3)]
        torch.cuda.current_stream().wait_stream(side)
        if total.item() != value * 4 * MIB:
            wrong.append(value)
        # The side stream's own memory goes to the other one.
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            late = torch.full((4 * MIB,), value, dtype=torch.int64, device="cuda")
            total = late.sum()
            del late
        filler.append(torch.zeros(4 * MIB, dtype=torch.int64, device="cuda"))
        side.synchronize()
        if total.item() != value * 4 * MIB:
            wrong.append(value)
        del filler
    return {"wrong": wrong, "held": sums()}


def history(name: str) -> dict[str, Any]:
    """A history tells of blocks, with the place in the program."""
    installed(name)
    torch.cuda.memory._record_memory_history(max_entries=1000)
    one = block(6)
    address = one.data_ptr()
    snapshot = torch.cuda.memory._snapshot()
    del one
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    entries = [entry for entry in trace if entry["addr"] == address]
    return {
        "actions": [entry["action"] for entry in entries],
        "of this file": any(
            "gpu_programs" in frame["filename"] for frame in entries[0].get("frames", [])
        ),
        "in a segment": any(
            segment["address"] <= address < segment["address"] + segment["total_size"]
            for segment in snapshot["segments"]
        ),
    }


PROGRAMS: dict[str, Callable[[str], dict[str, Any]]] = {
    program.__name__: program for program in (training, graph, out_of_memory, streams, history)
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](sys.argv[2])))
