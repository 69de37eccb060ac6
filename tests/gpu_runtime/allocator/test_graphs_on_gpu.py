"""Graphs that share memory on a GPU: bit for bit what PyTorch's own pools give."""

from __future__ import annotations

import pytest

from tests.gpu_runtime.own_processes import answer_of

pytestmark = pytest.mark.gpu

PROGRAMS = "tests.gpu_runtime.allocator.graph_gpu_programs"
POOLS = {"one-pool": 1, "a-pool-each": 6, "blocks": 1, "steps": 3}


@pytest.mark.parametrize("name", POOLS)
def test_every_bit_is_the_same_and_no_more_is_reserved(name: str) -> None:
    native = answer_of(PROGRAMS, name, "native", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    planned = answer_of(PROGRAMS, name, "planned")
    print([(each["reserved"], each["milliseconds"], each["graphs"]) for each in (native, planned)])
    assert planned["found"] == native["found"]
    graphs = planned["graphs"]
    assert (graphs["pools"], graphs["passed_on"]) == (POOLS[name], "")
    held, by_pytorch = graphs["shared_bytes"] + graphs["own_bytes"], graphs["pytorch_bytes"]
    assert held <= 1.01 * by_pytorch
    assert POOLS[name] == 1 or held < 0.7 * by_pytorch
