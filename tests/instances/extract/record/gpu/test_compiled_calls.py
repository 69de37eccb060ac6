"""Compiled programs: what Inductor's own program allocates, reuses and frees."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.extract.record.own_extraction import open_own, trace_own
from instances.traces.allocation_trace import NOTES, AllocationTrace
from tests.instances.extract.own.user_scripts import written

pytestmark = pytest.mark.torch

MIB = 1 << 20
HEAD = """
import torch
from torch import nn

class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(512, 512))

    def forward(self, x):
        return (x * self.scale + torch.arange(512, device=x.device)).sin().cos().exp()

def train(wrap):
    layers = nn.Sequential(Waves(), Waves()).cuda()
    model = wrap(layers)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for step in range(3):
        x = torch.ones(rows(step), 512, 512, device="cuda")
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

def rows(step):
    return 8

def main():
"""


def trace_of(tmp_path: Path, body: str, head: str = HEAD) -> AllocationTrace:
    return trace_own(open_own(f"{written(tmp_path, head + body)}:main", []), 2)


def peak(trace: AllocationTrace) -> int:
    """Return the peak of live bytes in MiB."""
    found = live = 0
    events = [
        *zip(trace.alloc, trace.size, strict=True),
        *zip(trace.freed, -trace.size, strict=True),
    ]
    for _, size in sorted(events):
        live += int(size)
        found = max(found, live)
    return found // MIB


# The input, the gradient of the result, a gradient between the layers, and weights with gradients.
ONE_GRAPH = 3 * 8 + 4
# Of two graphs also what lies between them, and a gradient within the second one, which is done
# before the first has one of its weights.
TWO_GRAPHS = 5 * 8 + 3
# The input, three results of each layer, three within the backward pass of a cosine, and weights.
EAGER = 10 * 8 + 2


def test_what_is_fused_is_not_allocated(tmp_path: Path) -> None:
    assert peak(trace_of(tmp_path, "    train(lambda layers: layers)\n")) == EAGER
    trace = trace_of(tmp_path, "    train(torch.compile)\n")
    assert peak(trace) == ONE_GRAPH
    assert "compiler itself" in str(trace.origin[NOTES])


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        ("lambda layers: (layers.compile(), layers)[1]", TWO_GRAPHS),
        ("lambda layers: ([layer.compile() for layer in layers], layers)[1]", TWO_GRAPHS),
        ("lambda layers: torch.compile(layers, dynamic=True)", ONE_GRAPH),
        ("lambda layers: torch.compile(lambda x: layers[1](layers[0](x)))", ONE_GRAPH),
    ],
)
def test_each_way_to_compile(tmp_path: Path, wrap: str, expected: int) -> None:
    assert peak(trace_of(tmp_path, f"    train({wrap})\n")) == expected


def test_code_between_two_graphs_runs_eagerly(tmp_path: Path) -> None:
    broken = HEAD.replace(
        "        return (x", "        torch._dynamo.graph_break()\n        return (x"
    )
    assert peak(trace_of(tmp_path, "    train(torch.compile)\n", broken)) == TWO_GRAPHS


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("mode='max-autotune-no-cudagraphs'", "what tuning allocates is not predicted"),
        ("options={'max_autotune': True}", "what tuning allocates is not predicted"),
        ("backend='cudagraphs'", "traced eagerly"),
    ],
)
def test_what_is_not_predicted_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: str, said: str
) -> None:
    trace_of(tmp_path, f"    train(lambda layers: torch.compile(layers, {options}))\n")
    assert capfd.readouterr().err.count(said) == 1


@pytest.mark.parametrize(
    ("options", "has_graphs"),
    [
        ("mode='reduce-overhead'", True),
        ("options={'triton.cudagraphs': True}", True),
        ("mode='max-autotune'", True),
        ("mode='max-autotune-no-cudagraphs'", False),
    ],
)
def test_which_programs_have_graphs(tmp_path: Path, options: str, has_graphs: bool) -> None:
    trace = trace_of(tmp_path, f"    train(lambda layers: torch.compile(layers, {options}))\n")
    assert bool(trace.capture.any()) == has_graphs


def test_another_pytorch_is_traced_eagerly(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor import scheduler

    monkeypatch.delattr(scheduler, "has_triton")
    eager = peak(trace_of(tmp_path, "    train(torch.compile)\n"))
    assert (eager, "traced eagerly" in capfd.readouterr().err) == (EAGER, True)
