"""Memory of a GPU is paused and resumed, and every bit comes again."""

from __future__ import annotations

from functools import partial

import pytest

from tests.gpu_runtime.own_processes import answer_of

pytestmark = pytest.mark.gpu

run = partial(answer_of, "tests.gpu_runtime.allocator.pause_programs")
MIB = 1 << 20


@pytest.mark.parametrize("what", ["weights", "all"])
def test_training_goes_on_bit_for_bit(what: str) -> None:
    paused, other = run("train", what), run("train", "nothing")
    assert paused["steps"] == other["steps"]
    assert paused["guest"]
    report = paused["report"]
    assert report["paused_bytes"] == report["kept_bytes"] == 0
    assert report["resumed_bytes"] == paused["resumed"] > 0
    assert paused["given back"] >= paused["weights"]
    # The driver itself takes memory meanwhile, for kernels and pinned memory.
    assert paused["came free"] >= paused["given back"] - 64 * MIB
    if what == "all":
        assert paused["left"] - report["passed_on_bytes"] < 64 * MIB


def test_a_graph_replays_the_same_bits() -> None:
    found = run("graph", "-")
    assert len(set(found["digests"])) == 1
    assert found["passed on"] >= found["out"]


def test_an_access_to_a_paused_tensor_is_an_illegal_one() -> None:
    assert "illegal memory access" in run("access", "-")["error"]


def test_the_check_names_a_paused_tensor_before_the_access() -> None:
    found = run("access", "check")
    assert "aten.sum.default: the tensor of shape [1048576] is paused" in found["error"]
    assert found["sum"] == 1 << 20


def test_memory_without_kept_contents_keeps_its_addresses() -> None:
    assert run("nothing", "-") == {"kept": 0, "addresses": True, "same": True}
