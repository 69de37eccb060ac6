"""Stages of a pipeline: each is traced as its rank, and keeps what its schedule says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpu_runtime.fitting.traced_program import AskedProgram
from instances.traces.allocation_trace import AllocationTrace, Phase, iteration_window
from planners.errors import InstanceError
from tests.instances.extract.own.user_scripts import written

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).parents[2] / "instances" / "extract" / "own" / "scripts" / "pipeline.py"


def traces(ranks: int, name: str = f"{SCRIPT}:main", **given: object) -> dict[int, AllocationTrace]:
    settings = [f"{key}={value}" for key, value in given.items()]
    traced = AskedProgram(name, arguments=settings, ranks=ranks).trace({})
    return {int(one.origin["rank"]): one.trace for one in traced}


def most_kept(trace: AllocationTrace) -> int:
    """Return the largest number of microbatches whose activation lives in the second step."""
    begin, end = iteration_window(trace, 1)
    change = np.zeros(trace.event_count + 1, dtype=np.int64)
    for request in range(trace.request_count):
        alloc = trace.alloc[request]
        phase = trace.mark_phase[np.searchsorted(trace.mark_event, alloc) - 1]
        is_kept = phase == Phase.FORWARD and trace.module_of(request).endswith("act")
        if is_kept and begin <= alloc < end:
            change[[alloc, trace.free_requested[request]]] += 1, -1
    return int(change.cumsum().max())


@pytest.mark.parametrize(
    ("schedule", "ranks", "kept"),
    [
        # All of them; one for each stage from its own on; one more than Megatron's warm-up.
        ("GPipe", 2, [4, 4]),
        ("1F1B", 3, [3, 2, 1]),
        ("Interleaved1F1B", 2, [5, 3]),
    ],
)
def test_each_stage_keeps_the_activations_of_its_schedule(
    schedule: str, ranks: int, kept: list[int]
) -> None:
    found = traces(ranks, schedule=schedule)
    assert {rank: most_kept(trace) for rank, trace in found.items()} == dict(enumerate(kept))


def test_ranks_receive_the_shapes_that_real_processes_do(tmp_path: Path) -> None:
    traces(2, received=tmp_path / "traced")
    command = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(SCRIPT)]
    given = {"DEVICE": "cpu", "RECEIVED": str(tmp_path / "real"), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *command], env={**os.environ, **given}, check=True)
    for rank in range(2):
        traced, real = (
            json.loads((tmp_path / f"{how}-{rank}").read_text()) for how in ("traced", "real")
        )
        assert traced == real
        assert any(traced)


def test_only_the_stages_that_talk_to_the_rank_are_traced() -> None:
    assert list(traces(4, copies=2)) == [0, 2]


TELLS = """
import torch
from torch import distributed, nn


def main():
    distributed.init_process_group("nccl")
    if distributed.get_rank():
        shape = torch.empty(2, dtype=torch.int64, device="cuda")
        distributed.recv(shape, 0)
    else:
        shape = torch.tensor([7, 100], device="cuda")
        distributed.send(shape, 1)
    model = nn.Linear(100, 1).to("cuda")
    for _ in range(4):
        model(torch.empty(*shape.tolist(), device="cuda")).sum().backward()
        torch.optim.SGD(model.parameters()).step()
"""


def test_a_rank_makes_what_another_one_tells_it(tmp_path: Path) -> None:
    found = traces(2, f"{written(tmp_path, TELLS)}:main")
    assert all(4 * 7 * 100 in trace.size for trace in found.values())


SENDS_A_TENSOR = """
import torch
from torch import distributed, nn


def main():
    distributed.init_process_group("nccl")
    objects = [("scores", torch.empty(7, 100, device="cuda").to("meta"))]
    if distributed.get_rank():
        objects = [None]
        distributed.recv_object_list(objects, 0)
    else:
        distributed.send_object_list(objects, 1)
    ((name, like),) = objects
    assert (name, like.device.type) == ("scores", "meta")
    model = nn.Linear(100, 1).to("cuda")
    for _ in range(4):
        model(torch.zeros_like(like, device="cuda")).sum().backward()
        torch.optim.SGD(model.parameters()).step()
"""


def test_a_tensor_within_an_object_arrives_as_its_shape(tmp_path: Path) -> None:
    found = traces(2, f"{written(tmp_path, SENDS_A_TENSOR)}:main")
    assert all(4 * 7 * 100 in trace.size for trace in found.values())


FAILS = """
import torch
from torch import distributed


def main():
    distributed.init_process_group("nccl")
    block = torch.zeros(4, device="cuda")
    if distributed.get_rank():
        raise ValueError("no such stage")
    distributed.recv(block, src=1)
"""


def test_an_error_names_the_rank_that_it_ended(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match=r"rank 1: .*no such stage"):
        traces(2, f"{written(tmp_path, FAILS)}:main")
