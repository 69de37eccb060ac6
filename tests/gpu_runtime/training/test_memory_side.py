"""What a run sees of its allocator; ours is a stand-in here, and PyTorch's has no device."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import pytest

import gpu_runtime
from gpu_runtime.training.answer import PeakFigures
from gpu_runtime.training.job import Allocator
from planners.errors import DeviceError
from tests.gpu_runtime.training.answers import PLAN

pytestmark = pytest.mark.torch


class StandIn:
    """Keeps to the interface of PlannedMemory."""

    def __init__(self, planner: str, time_limit: float) -> None:
        self.calls: list[object] = [planner, time_limit]

    def install(self) -> None:
        self.calls.append("install")

    def step(self) -> AbstractContextManager[object]:
        self.calls.append("step")
        return nullcontext()

    def reset_peaks(self) -> None:
        self.calls.append("reset")

    def report(self) -> SimpleNamespace:
        return SimpleNamespace(
            **{
                **vars(PLAN),
                "requested_bytes": 1,
                "allocated_bytes": 2,
                "reserved_bytes": 3,
                "mismatches": (ValueError("request 4: other size"),),
            }
        )


def test_ours_is_installed_at_once_and_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_runtime.training.memory_side import PlannedSide, open_memory

    monkeypatch.setattr(gpu_runtime, "PlannedMemory", StandIn, raising=False)
    memory = open_memory(Allocator.PLANNED, "cuda", "pressure", 3.0)
    assert isinstance(memory, PlannedSide)
    with memory.step():
        memory.reset_peaks()
    assert memory._memory.calls == ["pressure", 3.0, "install", "step", "reset"]
    assert memory.peaks() == PeakFigures(1, 2, 3)
    plan = memory.plan()
    assert plan is not None
    assert plan.mismatches == ("request 4: other size",)
    assert {**vars(plan), "mismatches": ()} == vars(PLAN)


def test_pytorchs_peaks_are_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training.memory_side import NativeMemory, open_memory

    figures = {f"{kind}_bytes.all.{which}": number * (10 if which == "peak" else 1)
               for number, kind in enumerate(("requested", "allocated", "reserved", "active"), 1)
               for which in ("peak", "current")}  # fmt: skip
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: figures)
    for allocator in (Allocator.DEFAULT, Allocator.EXPANDABLE):
        memory = open_memory(allocator, "cuda")
        assert isinstance(memory, NativeMemory)
        assert memory.peaks() == PeakFigures(10, 20, 30)
        assert memory.plan() is None


def test_the_processor_has_no_allocator_to_choose() -> None:
    from gpu_runtime.training.memory_side import HostMemory, open_memory, require_device

    require_device("cpu")
    for allocator in Allocator:
        assert isinstance(open_memory(allocator, "cpu"), HostMemory)


def test_without_a_device_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training.memory_side import require_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="PyTorch finds no CUDA device"):
        require_device("cuda")
