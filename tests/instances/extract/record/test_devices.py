"""Where a tensor is: a script, a function and a rank of several find the same on the GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instances.extract.record.own_extraction import open_own, trace_own
from instances.extract.record.ranks.rank import Rank
from instances.traces.allocation_trace import AllocationTrace, Phase
from tests.instances.extract.own.user_scripts import written

pytestmark = pytest.mark.torch

HEAD = """
import copy

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils import data
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self, size=1000, device="cuda"):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, device=device))

    def forward(self, x):
        return (self.weight + x).sum()


def pack(tensor):
    there = torch.empty(tensor.shape, pin_memory=True)
    there.copy_(tensor, non_blocking=True)
    return tensor.device, there


def unpack(packed):
    return packed[1].to(packed[0])

"""
WAYS = ("function", "script", "rank")
# The bytes of the weight and of the loss.
LEAST = 4004
SAVED = """
    net = Net()
    def loss(net, x):
        with {}:
            return (net(x) * net.weight.exp().square().sin()).sum()
"""
# Each makes `net`; those that make no `loss` have it of `net(0)`. The bytes beyond `LEAST` that are
# on the GPU when the backward pass begins.
PROGRAMS = {
    "saved on the host": (SAVED.format("save_on_cpu()"), 0),
    "saved in pinned memory": (SAVED.format("save_on_cpu(pin_memory=True)"), 0),
    "saved by hooks of one's own": (SAVED.format("saved_tensors_hooks(pack, unpack)"), 0),
    "recomputed from the host": (
        "    net = Net()\n    def loss(net, x):\n        with save_on_cpu():\n"
        "            run = lambda weight: weight.exp().sin().sum()\n"
        "            return checkpoint(run, net.weight, use_reentrant=False)\n", 0),
    "saved on the GPU": (SAVED.format("torch.enable_grad()"), 3 * 4000 + 4),
    "averaged on the host": ("    net = Net()\n    average = copy.deepcopy(net).cpu()\n", 0),
    "averaged on the GPU": ("    net = Net()\n    average = copy.deepcopy(net)\n", 4000),
    "data on the host": ("    net = Net()\n    data = torch.zeros(5000) + 1\n", 0),
    "data that went there": ("    net = Net()\n    data = torch.zeros(5000).cuda()\n", 20_000),
    "data that came back": ("    net = Net()\n    data = net.weight.detach().to('cpu') * 2\n", 0),
    "made on meta": ("    net = Net(device='meta').to_empty(device='cuda')\n", 0),
    "still on meta": ("    net = Net()\n    other = Net(device='meta').weight * 2\n", 0),
    "pinned": ("    net = Net()\n    data = torch.zeros(500).pin_memory()\n", 0),
    "a default device": ("    with torch.device('cuda'):\n        net = Net(device=None)\n"
                         "        data = torch.zeros(500)\n", 2000),
    "a number for a device": ("    net = Net(device=0).to(0)\n", 0),
    "a constant": ("    net = Net()\n    data = torch.tensor([1.0, 2.0])\n"
                   "    other = net.weight.new_tensor([1.0])\n", 4),
    "inside a composite": ("    net = Net()\n    rows = torch.zeros(3, device='cuda').long()\n"
                           "    data = nn.functional.one_hot(rows, 5)\n", 3 * 8 + 3 * 5 * 8),
    "a loader": ("    net = Net()\n    batches = iter(data.DataLoader([1.0] * 900, 1))\n"
                 "    drawn = []\n    def loss(net, x):\n        drawn.append(next(batches))\n"
                 "        return net(0)\n", 0),
}  # fmt: skip
STEP = """
    kept = dict(locals())
    loss = kept.get("loss", lambda net, x: net(x))
    host = [nn.Parameter(weight.detach().cpu().clone()) for weight in net.parameters()]
    optimizer = torch.optim.AdamW(host)
    def step():
        loss(kept["net"], 0).backward()
        for here, there in zip(net.parameters(), host):
            there.grad, here.grad = here.grad.to("cpu"), None
        optimizer.step()
        with torch.no_grad():
            for here, there in zip(net.parameters(), host):
                here.copy_(there)
    return step


if __name__ == "__main__":
    step = make()
    for _ in range(9):
        step()
"""


def traced(folder: Path, body: str, way: str) -> AllocationTrace:
    path = written(folder, f"{HEAD}\ndef make():\n{body}{STEP}")
    rank = Rank(0, 2) if way == "rank" else None
    name = str(path) if way == "script" else f"{path}:make"
    return trace_own(open_own(name, []), 3, rank=rank)


def live(trace: AllocationTrace) -> np.ndarray:
    change = np.zeros(trace.event_count + 1, dtype=np.int64)
    np.add.at(change, trace.alloc, trace.size)
    np.add.at(change, trace.free_requested, -trace.size)
    return np.cumsum(change)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_only_what_is_on_the_gpu_counts(program: str, way: str, tmp_path: Path) -> None:
    body, more = PROGRAMS[program]
    trace = traced(tmp_path, body, way)
    begins = trace.mark_event[trace.mark_phase == Phase.BACKWARD]
    assert len(begins) == 3
    assert live(trace)[begins - 1].tolist() == [LEAST + more] * 3


@pytest.mark.parametrize("way", WAYS)
def test_the_peak_of_set_up_counts(way: str, tmp_path: Path) -> None:
    body = (
        "    net = Net(9000)\n    net.weight = nn.Parameter(net.weight.detach()[:1000].clone())\n"
    )
    trace = traced(tmp_path, body, way)
    assert live(trace).max() == 9000 * 4 + 4000
    assert live(trace)[: trace.mark_event[0]].max() == 9000 * 4 + 4000
