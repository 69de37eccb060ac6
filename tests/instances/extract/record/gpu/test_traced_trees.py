"""Trees of CUDA graphs: what compiled functions keep in the pool of their graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpu_runtime.fitting.graph_pools import captured_graphs
from instances.extract.record.own_extraction import open_own, trace_own
from instances.traces.allocation_trace import NOTES, AllocationTrace
from instances.traces.trace_requests import requests_of_trace
from planners.model.online_result import OnlineTerms
from planners.online.online_run import run_online
from planners.registry import choose_online
from tests.instances.extract.own.user_scripts import written

pytestmark = pytest.mark.torch

MIB = 1 << 20
CACHING = "pytorch-caching"
HEAD = """
import torch
from torch import nn

def compiled(run):
    return torch.compile(run, mode="reduce-overhead")

def mib(count=8):
    return torch.ones(count, 512, 512, device="cuda")

class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(512, 512))

    def forward(self, x):
        return (x * self.scale).sin()

def train(model, steps, wrap=compiled):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = wrap(model)
    for _ in range(steps):
        run(mib()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

"""
# A training to be traced, of one step and without graphs.
EAGER = "train(Waves().cuda(), 1, lambda model: model)"


def trace_of(folder: Path, *body: str) -> AllocationTrace:
    lines = "".join(f"    {line}\n" for line in body)
    path = written(folder, f"{HEAD}def main():\n{lines}")
    return trace_own(open_own(f"{path}:main", []), 9)


def in_pool(trace: AllocationTrace, captured: bool) -> list[int]:
    """Return the MiB of requests to the pool, within captures or outside of them."""
    chosen = (trace.pool > 0) & ((trace.capture > 0) == captured)
    return [int(size) // MIB for size in trace.size[chosen]]


def blocks_agree(trace: AllocationTrace) -> bool:
    """Return True if PyTorch never found another live block in the pool than it knows of."""
    return "blocks of the pool" not in str(trace.origin[NOTES])


def test_a_function_runs_in_the_pool_then_is_captured_then_asks_for_nothing(tmp_path: Path) -> None:
    """Both traces are of one process, and share nothing that PyTorch has compiled."""
    for _ in range(2):
        trace = trace_of(tmp_path, "train(Waves().cuda(), 5)")
        # The result and the weight's gradient; before the captures also what is copied there: the
        # input, and the gradient of the result.
        assert in_pool(trace, captured=True) == [8, 1]
        assert in_pool(trace, captured=False) == [8, 1, 8, 8]
        assert np.unique(trace.pool).size == 2
        assert blocks_agree(trace)
    graphs = captured_graphs(trace, choose_online(CACHING)[0])
    assert [graph.live // MIB for graph in graphs] == [8, 1]
    requests = requests_of_trace(trace)
    (row,) = run_online(requests, CACHING, OnlineTerms(has_series=True)).rows
    assert row.result is not None
    reserved, private = row.result.reserved, trace.pool[trace.size > 0] > 0
    live = requests.live_bytes(np.where(private, requests.size, 0))
    assert (live[-1], reserved[-1]) == (0, reserved.max())


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_second_function_leaves_what_a_replayed_one_returned(
    tmp_path: Path, is_kept: bool
) -> None:
    trace = trace_of(
        tmp_path,
        "first, second = compiled(torch.sin), compiled(torch.cos)",
        "x, y = mib(16), mib(4)",
        "for _ in range(3): kept = first(x)",
        "" if is_kept else "del kept",
        "for _ in range(2): last = second(y)",
        EAGER,
    )
    # Before the second function runs the block is taken again, and freed if nobody needs it.
    assert in_pool(trace, captured=False) == [16, 16, 16, 4, 4]
    again = int(np.flatnonzero(trace.pool * (trace.size == 16 * MIB))[-1])
    assert (trace.freed[again] > trace.alloc[again + 1]) == is_kept
    assert blocks_agree(trace)


def test_a_weight_that_moved_is_captured_anew(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        "layer, x = Waves().cuda().requires_grad_(False), mib()",
        "run = compiled(layer)",
        "for _ in range(3): run(x)",
        "layer.scale.data = mib(1)[0]",
        "for _ in range(2): run(x)",
        EAGER,
    )
    assert in_pool(trace, captured=True) == [8, 8]


def test_a_result_ends_with_the_next_step(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        "run = compiled(torch.sin)",
        "kept = [run(mib(16)) for _ in range(2)]",
        EAGER,
    )
    first, *_, last = np.flatnonzero(trace.pool * (trace.size == 16 * MIB))
    assert trace.freed[first] < trace.alloc[last]


def test_cublas_gives_its_workspace_back_after_each_run(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "run = compiled(torch.mm)", "for _ in range(3): run(*mib(2))", EAGER)
    workspaces = np.flatnonzero(trace.size == 32 * MIB)
    assert (trace.capture[workspaces] > 0).tolist() == [False, True]
    assert (trace.freed[workspaces] < trace.event_count).all()
    assert blocks_agree(trace)


def test_a_backward_pass_without_a_kernel_has_no_graph(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        "x = mib().requires_grad_()",
        "for _ in range(3): compiled(torch.sum)(x).backward()",
        EAGER,
    )
    assert np.unique(trace.capture[trace.capture > 0]).size == 1


def test_a_function_that_is_recomputed_runs_in_two_threads(tmp_path: Path) -> None:
    """Checkpointing: autograd's thread captures it once more."""
    trace = trace_of(
        tmp_path,
        "from torch.utils.checkpoint import checkpoint",
        "train(Waves().cuda(), 4, lambda layer: lambda x: "
        "checkpoint(compiled(layer), x, use_reentrant=False))",
    )
    assert in_pool(trace, captured=True) == [8, 8, 1]
    assert blocks_agree(trace)


def test_functions_of_two_parts_share_a_tree(tmp_path: Path) -> None:
    """Graph breaks: the second part reads the first one's result in the pool, without a copy."""
    trace = trace_of(tmp_path, "train(nn.Sequential(Waves(), Waves()).cuda(), 4, "
                     "lambda model: [part.compile(mode='reduce-overhead') for part in model]"
                     " and model)")  # fmt: skip
    # Two results, the gradients of the second part, and that of the first one's weight.
    assert in_pool(trace, captured=True) == [8, 8, 8, 1, 1]
    assert in_pool(trace, captured=False) == [8, 8, 8, 1, 1, 8, 8]
    # Results of a replay own no block: nothing of the pool ends with them.
    inputs = trace.alloc[(trace.pool == 0) & (trace.size == 8 * MIB)]
    assert trace.freed[trace.pool > 0].max() < inputs[-1]
    assert blocks_agree(trace)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("compiled(lambda x, y: y.add_(x))(mib(), mib())", "mutated inputs"),
        ("compiled(lambda x, y: x * y)(mib(), torch.tensor(2.0))", "a tensor of the host"),
    ],
)
def test_what_has_no_graph_is_said(tmp_path: Path, body: str, said: str) -> None:
    trace = trace_of(tmp_path, f"for _ in range(3): {body}", EAGER)
    assert not trace.pool.any()
    assert said in str(trace.origin[NOTES])
