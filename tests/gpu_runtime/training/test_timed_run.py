"""A timed run warms up, lets the peaks start again, and then times every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.run_specification import Purpose
from gpu_runtime.training.worker_result import PeakFigures
from tests.gpu_runtime.training.tiny_bert import register_tiny_bert, tiny_specification
from tests.gpu_runtime.training.worker_results import PLAN

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
    probe = Recording()
    result = run_timed(tiny_specification(Purpose.TIME), probe)
    assert probe.calls == [*["step"] * 2, "peaks", "reset", *["step"] * 3, "peaks"]
    assert len(result.step_seconds) == 3
    assert all(seconds > 0 for seconds in result.step_seconds)
    assert result.peaks == PeakFigures(1, 2, 3)
    assert result.whole_run_reserved == 10
    assert result.plan == PLAN
    assert result.device_bytes is None
    assert set(result.environment) == {"python", "torch", "transformers"}


def test_the_processor_counts_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_runtime.training.allocator_probe import HostProbe
    from gpu_runtime.training.timed_run import run_timed

    register_tiny_bert(monkeypatch)
    result = run_timed(tiny_specification(Purpose.TIME), HostProbe())
    assert result.peaks is None
    assert result.whole_run_reserved is None
    assert result.plan is None


def test_on_a_gpu_steps_are_timed_by_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_runtime.training import timed_run

    milliseconds = iter([1.0, 6.0, 13.0, 15.0])
    calls: list[str] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing
            self.at = 0.0

        def record(self) -> None:
            calls.append("record")
            self.at = next(milliseconds)

        def elapsed_time(self, end: Event) -> float:
            assert calls[-1] == "wait"
            return end.at - self.at

    monkeypatch.setattr(timed_run, "_make_event", Event)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: calls.append("wait"))
    seconds = timed_run._time_steps(lambda: calls.append("step"), 3, "cuda")
    assert seconds == pytest.approx([0.005, 0.007, 0.002])
    assert calls == ["record", *["step", "record"] * 3, "wait"]


def test_what_the_process_took_is_what_is_free_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_runtime.training import timed_run
    from gpu_runtime.training.allocator_probe import HostProbe

    register_tiny_bert(monkeypatch)
    free = iter([100, 40])
    monkeypatch.setattr(timed_run, "_free_bytes", lambda _device: next(free))
    assert timed_run.run_timed(tiny_specification(Purpose.TIME), HostProbe()).device_bytes == 60


def test_the_peak_of_the_whole_run_may_be_that_of_the_timed_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gpu_runtime.training.timed_run import run_timed

    class Growing(Recording):
        def peaks(self) -> PeakFigures | None:
            return PeakFigures(1, 2, len(self.calls))

    register_tiny_bert(monkeypatch)
    result = run_timed(tiny_specification(Purpose.TIME), Growing())
    assert result.peaks is not None
    assert result.whole_run_reserved == result.peaks.reserved == 6
