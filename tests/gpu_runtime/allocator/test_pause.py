"""What a user writes to pause memory and resume it, and what he is told."""

from __future__ import annotations

import ctypes
import json

import pytest

from gpu_runtime import PlannedMemory
from gpu_runtime._core import CountingMemory, PlannedAllocator, SimulatedMemory
from planners.errors import DeviceError, GaplessError

pytestmark = pytest.mark.core

PAGE = 4096


class Attached:
    """A memory over a simulated device."""

    def __init__(self, capacity: int = 400 * PAGE, *, check: bool = False) -> None:
        self.simulated = SimulatedMemory(PAGE, capacity)
        self.counted = CountingMemory(self.simulated, is_timed=True)
        self.allocator = PlannedAllocator(self.counted, is_checked=check)
        self.memory = PlannedMemory(check=check)
        self.memory.attach(self.allocator, self.counted)

    def weights(self, size: int = 5 * PAGE) -> int:
        with self.memory.tagged("weights"):
            block = self.allocator.allocate(size)
        ctypes.memset(block, 7, size)
        return block


def test_weights_go_and_come_again() -> None:
    run = Attached()
    weights, other = run.weights(), run.allocator.allocate(9)
    assert run.memory.pause("weights", keep="host") == 5 * PAGE
    ctypes.memset(other, 1, 9)
    assert run.memory.resume("weights") == 5 * PAGE
    assert ctypes.string_at(weights, 5 * PAGE) == b"\x07" * 5 * PAGE
    assert run.memory.pause() == 6 * PAGE
    assert run.memory.resume() == 6 * PAGE
    assert run.memory.resume() == 0


def test_the_report_tells_what_is_paused_and_how_fast_it_came() -> None:
    run = Attached()
    run.weights()
    assert run.memory.report().pause is None
    assert "paused" not in str(run.memory.report())
    run.memory.pause("weights")
    paused = run.memory.report().pause
    assert paused is not None
    assert (paused.paused_bytes, paused.kept_bytes) == (5 * PAGE, 5 * PAGE)
    assert (paused.given_back_bytes, paused.passed_on_bytes) == (5 * PAGE, 0)
    assert paused.pause_seconds > 0 == paused.resume_seconds
    said = str(run.memory.report())
    assert "20,480 bytes, 20,480 of them kept on the host" in said
    run.memory.resume("weights")
    resumed = run.memory.report().pause
    assert resumed is not None
    assert (resumed.resumed_bytes, resumed.paused_bytes) == (5 * PAGE, 0)
    assert resumed.resume_seconds > 0
    assert json.loads(json.dumps(run.memory.report().to_json()))["pause"]["paused_bytes"] == 0


def test_calls_of_a_pause_are_not_those_of_a_step() -> None:
    run = Attached()
    with run.memory.step():
        run.weights()
    before = run.memory.statistics()
    for _ in range(3):
        run.memory.pause()
        run.memory.resume()
    assert run.counted.calls.synchronize >= 3
    with run.memory.step():
        pass
    after = run.memory.statistics()
    assert after["all.host_waits"] == after["last.host_waits"] == before["all.host_waits"] == 0
    assert after["last.calls.map"] == 0
    assert after["all.calls.map"] == before["all.calls.map"]


def test_a_tag_ends_with_its_context_whatever_happens() -> None:
    run = Attached()
    with pytest.raises(ZeroDivisionError), run.memory.tagged("weights"):
        run.allocator.allocate(1 // 0)
    with run.memory.tagged("a"):
        with run.memory.tagged("b"):
            run.allocator.allocate(1)
        run.allocator.allocate(PAGE)
    run.allocator.allocate(2 * PAGE)
    assert [run.memory.pause(tag) for tag in ("weights", "b", "a")] == [0, PAGE, PAGE]


def test_errors_name_the_rule() -> None:
    run = Attached(capacity=8 * PAGE)
    run.weights()
    with pytest.raises(GaplessError, match=r"^keep: 'host' or 'nothing', found 'disk'$"):
        run.memory.pause(keep="disk")  # type: ignore[arg-type]
    with pytest.raises(GaplessError, match=r"^pause: tag: one of 'weights', found 'weight'$"):
        run.memory.pause("weight")
    with pytest.raises(GaplessError, match=r"^tag: a name is needed, found ''$"):
        run.memory.tagged("").__enter__()
    with pytest.raises(DeviceError, match="not installed"):
        PlannedMemory().pause()
    plain = PlannedMemory()
    plain.attach(PlannedAllocator(SimulatedMemory(PAGE, 8 * PAGE), is_plain=True))
    with pytest.raises(DeviceError, match="pause: plain memory cannot be paused"):
        plain.pause()
    run.memory.pause("weights")
    guest = run.simulated.create_pages(5 * PAGE)
    with pytest.raises(DeviceError, match=r"^resume: no physical memory .*nothing is lost"):
        run.memory.resume()
    run.simulated.release_pages(guest)
    assert run.memory.resume() == 5 * PAGE


@pytest.mark.parametrize(("value", "is_refused"), [("1", True), ("TRUE", True), ("0", False)])
def test_memory_that_nccl_registers_stays(
    value: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Attached()
    run.weights()
    monkeypatch.setenv("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", value)
    if is_refused:
        with pytest.raises(DeviceError, match="NCCL has registered must stay mapped"):
            run.memory.pause()
    else:
        assert run.memory.pause() == 5 * PAGE


@pytest.mark.torch
def test_an_operator_that_gets_a_paused_tensor_is_refused_by_name() -> None:
    import torch

    run = Attached(check=True)
    block = run.weights()
    memory = (ctypes.c_uint8 * (5 * PAGE)).from_address(block)
    weights = torch.frombuffer(memory, dtype=torch.float32)
    other = torch.ones(3)
    run.memory.pause("weights")
    rows = weights.view(5, 1024)
    assert torch.equal(other + other, 2 * other)
    with pytest.raises(DeviceError) as raised:
        rows.sum()
    assert str(raised.value) == (
        "aten.sum.default: the tensor of shape [5, 1024] is paused, in the block of 20,480 bytes "
        f"at {block:#x}; call resume() first"
    )
    run.memory.resume("weights")
    assert rows.sum() == weights.sum()
    assert run.memory.report().overwrites == ()
