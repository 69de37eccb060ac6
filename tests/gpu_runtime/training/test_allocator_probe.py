"""What a run sees of its allocator: ours over simulated memory; PyTorch's has no device here."""

from __future__ import annotations

import math

import pytest

from gpu_runtime import OnlineMemory, PlannedMemory
from gpu_runtime._core import PlannedAllocator, SimulatedMemory
from gpu_runtime.training.run_result import DeviceCounts, PeakFigures
from gpu_runtime.training.training_run import ONLINE, Allocator
from planners.errors import DeviceError

pytestmark = pytest.mark.torch


PAGE = 2 << 20


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> PlannedAllocator:
    """Let PlannedMemory be installed over simulated memory; the test asks in PyTorch's place."""
    import torch

    made = PlannedAllocator(SimulatedMemory(PAGE, 1 << 30))

    def statistics() -> dict[str, int]:
        figures = made.figures()
        return {
            "requested_bytes.all.peak": figures.requested_peak,
            "allocated_bytes.all.peak": figures.allocated_peak,
            "reserved_bytes.all.peak": figures.reserved_peak,
        }

    monkeypatch.setattr(PlannedMemory, "install", lambda memory: memory.attach(made))
    monkeypatch.setattr(torch.cuda, "memory_stats", statistics)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", made.reset_peaks)
    return made


def test_ours_is_installed_at_once_and_reports(allocator: PlannedAllocator) -> None:
    from gpu_runtime.training.allocator_probe import PlannedProbe, open_probe

    probe = open_probe(Allocator.PLANNED, "cuda", "greedy-size-first", 3.0, planning="between")
    assert isinstance(probe, PlannedProbe)
    weights = allocator.allocate(1000)
    before = probe.plan()
    assert before is not None
    assert (before.planner, before.status) == ("greedy-size-first", "profiling")
    for number in range(8):
        if number == 6:
            probe.reset_peaks()
        with probe.step():
            taken = [allocator.allocate(size) for size in (3 * PAGE, PAGE + 1)]
            for address in taken:
                allocator.free(address)
    peaks, plan = probe.peaks(), probe.plan()
    assert peaks is not None
    assert plan is not None
    assert peaks.requested == 4 * PAGE + 1 + 1000
    assert peaks.allocated == 4 * PAGE + 512 + 1024
    assert peaks.reserved == 6 * PAGE
    assert plan.arena_bytes == plan.lower_bound == peaks.allocated - 1024
    assert (plan.status, plan.reason) == ("optimal", "")
    assert (plan.steps, plan.planned_steps, plan.planned_requests) == (2, 2, 4)
    assert (plan.unexpected_requests, plan.mismatches) == (0, ())
    allocator.free(weights)


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        (Allocator.PLANNED, 0.005),
        (Allocator.PLANNED_NO_MOVES, 0.0),
        (Allocator.PLANNED_ALL_MOVES, math.inf),
    ],
)
def test_a_plan_in_the_making_is_waited_for(
    allocator: PlannedAllocator, monkeypatch: pytest.MonkeyPatch, kind: Allocator, share: float
) -> None:
    from gpu_runtime.training.allocator_probe import AllocatorProbe, NativeProbe, open_probe

    waited: list[PlannedMemory] = []

    def wait(memory: PlannedMemory) -> None:
        waited.append(memory)

    monkeypatch.setattr(PlannedMemory, "wait_for_planning", wait)
    AllocatorProbe().wait_for_planning()
    NativeProbe().wait_for_planning()
    assert not waited
    open_probe(kind, "cuda").wait_for_planning()
    assert [memory._share_of_moves for memory in waited] == [share]
    assert allocator.figures().reserved_bytes == 0


def test_mismatches_come_with_the_report(allocator: PlannedAllocator) -> None:
    from gpu_runtime.training.allocator_probe import open_probe

    probe = open_probe(Allocator.PLANNED, "cuda", planning="between")
    for size in (PAGE, PAGE, PAGE, PAGE, 2 * PAGE):
        with probe.step():
            allocator.free(allocator.allocate(size))
    plan = probe.plan()
    assert plan is not None
    assert plan.mismatch_counts == {"size": 1}
    assert plan.unexpected_requests == 1
    (mismatch,) = plan.mismatches
    assert str(mismatch).startswith("step 4: 4,194,304 bytes on stream 0x0")


def test_pytorchs_peaks_are_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training.allocator_probe import NativeProbe, open_probe

    figures = {f"{kind}_bytes.all.{which}": number * (10 if which == "peak" else 1)
               for number, kind in enumerate(("requested", "allocated", "reserved", "active"), 1)
               for which in ("peak", "current")}  # fmt: skip
    figures |= {"num_device_alloc": 4, "num_device_free": 1, "num_sync_all_streams": 1}
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: figures)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    for allocator in (Allocator.DEFAULT, Allocator.EXPANDABLE):
        probe = open_probe(allocator, "cuda")
        assert isinstance(probe, NativeProbe)
        assert probe.peaks() == PeakFigures(10, 20, 30)
        assert probe.plan() is None
        assert probe.counts() == DeviceCounts(5, 1)
        probe.reset_peaks()
        figures["num_device_alloc"] += 2
        assert probe.counts() == DeviceCounts(2, 0)
        figures["num_device_alloc"] -= 2


@pytest.mark.parametrize("allocator", ONLINE)
def test_an_online_allocator_is_installed_at_once(
    allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpu_runtime.training.allocator_probe import OnlineProbe, open_probe

    installed: list[tuple[int, str]] = []

    def install(memory: OnlineMemory) -> None:
        memory.attach(SimulatedMemory(PAGE, 1 << 30))
        installed.append((memory.device, memory.report().allocator))

    monkeypatch.setattr(OnlineMemory, "install", install)
    probe = open_probe(allocator, "cuda", ordinal=1)
    assert isinstance(probe, OnlineProbe)
    assert installed == [(1, allocator)]
    assert probe.plan() is None
    assert probe.counts() in (DeviceCounts(0, 0), DeviceCounts(1, 0))
    with probe.step():
        pass


def test_the_processor_has_no_allocator_to_choose() -> None:
    from gpu_runtime.training.allocator_probe import AllocatorProbe, open_probe, require_device

    require_device("cpu")
    for allocator in Allocator:
        probe = open_probe(allocator, "cpu")
        assert type(probe) is AllocatorProbe
        assert (probe.peaks(), probe.counts(), probe.plan()) == (None, None, None)


def test_without_a_device_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training.allocator_probe import require_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="PyTorch finds no CUDA device"):
        require_device("cuda")
