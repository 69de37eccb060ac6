"""A timed run warms up, lets the peaks start again, and then times every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpu_runtime.memory_report import MemoryReport
from gpu_runtime.training.answer import PeakFigures
from gpu_runtime.training.job import Purpose
from tests.gpu_runtime.training.answers import PLAN
from tests.gpu_runtime.training.tiny_bert import register_tiny_bert, tiny_job

pytestmark = pytest.mark.torch


class Recording:
    """An allocator that writes down what it is asked; its reserved peak falls after the reset."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @contextmanager
    def step(self) -> Iterator[None]:
        self.calls.append("step")
        yield

    def reset_peaks(self) -> None:
        self.calls.append("reset")

    def peaks(self) -> PeakFigures | None:
        self.calls.append("peaks")
        return PeakFigures(1, 2, 3 if "reset" in self.calls else 10)

    def plan(self) -> MemoryReport | None:
        return PLAN


def test_only_steps_after_the_reset_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_runtime.training.timed_run import run_timed

    register_tiny_bert(monkeypatch)
    memory = Recording()
    answer = run_timed(tiny_job(Purpose.TIME), memory)
    assert memory.calls == [*["step"] * 2, "peaks", "reset", *["step"] * 3, "peaks"]
    assert len(answer.step_seconds) == 3
    assert all(seconds > 0 for seconds in answer.step_seconds)
    assert answer.peaks == PeakFigures(1, 2, 3)
    assert answer.whole_run_reserved == 10
    assert answer.plan == PLAN
    assert answer.device_bytes is None
    assert set(answer.environment) == {"python", "torch", "transformers"}


def test_the_processor_counts_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_runtime.training.memory_side import HostMemory
    from gpu_runtime.training.timed_run import run_timed

    register_tiny_bert(monkeypatch)
    answer = run_timed(tiny_job(Purpose.TIME), HostMemory())
    assert answer.peaks is None
    assert answer.whole_run_reserved is None
    assert answer.plan is None
