"""Graphs that share memory on a GPU: bit for bit what PyTorch's own pools give."""

from __future__ import annotations

import pytest

from tests.gpu_runtime.own_processes import answer_of

pytestmark = pytest.mark.gpu

# The number of pools, if it is not one.
POOLS = {"a-pool-each": 6, "steps": 3}
PROGRAMS = "tests.gpu_runtime.allocator.graph_gpu_programs"


@pytest.mark.parametrize("name", ["one-pool", "a-pool-each", "blocks", "steps"])
def test_every_bit_is_the_same_and_less_is_reserved(name: str) -> None:
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    native, planned = (
        answer_of(PROGRAMS, name, allocator, **settings) for allocator in ("native", "planned")
    )
    print({key: (native[key], planned[key]) for key in ("reserved", "milliseconds", "graphs")})
    assert planned["found"] == native["found"]
    assert planned["parameters"] == native["parameters"]
    graphs = planned["graphs"]
    assert graphs["passed_on"] == ""
    assert graphs["pools"] == POOLS.get(name, 1)
    assert planned["reserved"] <= 1.01 * native["reserved"]
    if name in POOLS:
        assert graphs["shared_bytes"] + graphs["own_bytes"] < graphs["pytorch_bytes"]
