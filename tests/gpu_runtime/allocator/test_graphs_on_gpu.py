"""Graphs that share memory on a GPU: bit for bit what PyTorch's own pools give."""

from __future__ import annotations

import pytest

from tests.gpu_runtime.own_processes import answer_of

pytestmark = pytest.mark.gpu

PROGRAMS = "tests.gpu_runtime.allocator.graph_gpu_programs"
POOLS = {"one-pool": 1, "a-pool-each": 6, "blocks": 1, "steps": 3}
# Other ways to capture: the number of pools that are served, and what is passed on.
WAYS = {
    "side-stream": (2, ""),
    "paused": (2, ""),
    "after-shortage": (6, "1 request without memory"),
    "compiled": (0, "1 pool filled before a capture"),
    "between": (3, ""),
}


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


@pytest.mark.parametrize("name", WAYS)
def test_each_way_to_capture_works_or_is_passed_on_with_a_reason(name: str) -> None:
    native, planned = (answer_of(PROGRAMS, name, how) for how in ("native", "planned"))
    assert planned["found"] == native["found"]
    assert (planned["graphs"]["pools"], planned["graphs"]["passed_on"]) == WAYS[name]
    assert planned["reserved"] <= 1.01 * native["reserved"]
