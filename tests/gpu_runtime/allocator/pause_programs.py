"""Programs that pause memory on a GPU, each for a process of its own.

``python -m tests.gpu_runtime.allocator.pause_programs NAME`` prints one line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

import torch
from torch import Tensor, nn

from gpu_runtime import PlannedMemory
from planners.errors import DeviceError

WIDTH = 4096
LAYERS = 12
STEPS = 8
PAUSE_AFTER = 4


def digest(*tensors: Tensor) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().cpu().numpy().tobytes())
    return found.hexdigest()


def free_bytes() -> int:
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def layers(memory: PlannedMemory) -> nn.Sequential:
    torch.manual_seed(0)
    with memory.tagged("weights"):
        return nn.Sequential(
            *(nn.Linear(WIDTH, WIDTH, bias=False, device="cuda") for _ in range(LAYERS))
        )


def train(what: str) -> dict[str, Any]:
    """Train, and pause between two steps: nothing, the weights, or all memory."""
    torch.use_deterministic_algorithms(True)
    # Libraries take memory of their own at first use.
    nn.Linear(WIDTH, WIDTH, device="cuda")(torch.ones(64, WIDTH, device="cuda")).sum().backward()
    torch.cuda.empty_cache()
    before = free_bytes()
    memory = PlannedMemory()
    memory.install()
    model = layers(memory)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    batch = torch.randn(64, WIDTH, device="cuda")
    found: dict[str, Any] = {"steps": []}
    for number in range(STEPS):
        with memory.step():
            optimizer.zero_grad(set_to_none=True)
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
        found["steps"].append(digest(loss, *model.parameters()))
        if number != PAUSE_AFTER or what == "nothing":
            continue
        loss = loss.detach()
        full = free_bytes()
        given_back = memory.pause("weights" if what == "weights" else None)
        found |= {
            "given back": given_back,
            "came free": free_bytes() - full,
            "left": before - free_bytes(),
            "weights": sum(p.nbytes for p in model.parameters()),
        }
        guest = torch.ones(given_back // 8, dtype=torch.float32, device="cuda")
        found["guest"] = guest.sum().item() == guest.numel()
        del guest
        torch.cuda.empty_cache()
        found["resumed"] = memory.resume()
        found["report"] = memory.report().to_json()["pause"]
    return found


def graph(_what: str) -> dict[str, Any]:
    """Replays of a captured graph give the same bits before and after a pause."""
    memory = PlannedMemory()
    memory.install()
    model = layers(memory)
    static = torch.randn(64, WIDTH, device="cuda")
    with torch.no_grad():
        model(static)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            out = model(static)
    found = []
    for tag in (None, "weights", None, "weights"):
        captured.replay()
        found.append(digest(out))
        memory.pause(tag)
        passed_on = memory.report().pause
        memory.resume(tag)
    captured.replay()
    found.append(digest(out))
    assert passed_on is not None
    return {"digests": found, "passed on": passed_on.passed_on_bytes, "out": out.nbytes}


def access(what: str) -> dict[str, Any]:
    """Use a paused tensor: with the check an error names it, without it the context is lost."""
    memory = PlannedMemory(check=what == "check")
    memory.install()
    with memory.tagged("weights"):
        weights = torch.ones(1 << 20, device="cuda")
    memory.pause("weights")
    try:
        float(weights.sum())
    except DeviceError as error:
        memory.resume()
        return {"error": str(error), "sum": float(weights.sum())}
    except RuntimeError as error:
        return {"error": str(error)}
    return {"error": "none"}


def nothing_kept(_what: str) -> dict[str, Any]:
    """Weights that are not kept are written anew at the same addresses."""
    memory = PlannedMemory()
    memory.install()
    model = layers(memory)
    addresses = [parameter.data_ptr() for parameter in model.parameters()]
    before = digest(*model.parameters())
    host = [parameter.detach().cpu() for parameter in model.parameters()]
    memory.pause("weights", keep="nothing")
    kept = memory.report().pause
    memory.resume("weights")
    with torch.no_grad():
        for parameter, values in zip(model.parameters(), host, strict=True):
            parameter.copy_(values)
    assert kept is not None
    return {
        "kept": kept.kept_bytes,
        "addresses": addresses == [parameter.data_ptr() for parameter in model.parameters()],
        "same": digest(*model.parameters()) == before,
    }


PROGRAMS = {
    "train": train,
    "graph": graph,
    "access": access,
    "nothing": nothing_kept,
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](sys.argv[2])), flush=True)
    # After an illegal access the driver refuses what PyTorch calls at exit.
    os._exit(0)
