"""On which device memory is planned, and what is said where a library is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpu_runtime import PlannedMemory
from gpu_runtime._core import PlannedAllocator, SimulatedMemory
from gpu_runtime.integrations.callback_step import CallbackStep
from planners.errors import DeviceError


class Device:
    """What is asked of a ``torch.device``."""

    def __init__(self, index: int | None) -> None:
        self.type = "cuda"
        self.index = index


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the devices on which memory was installed."""
    found: list[int] = []
    monkeypatch.setattr(PlannedMemory, "install", lambda memory: found.append(memory.device))
    return found


@pytest.mark.parametrize(("index", "number"), [(None, 0), (0, 0), (1, 1)])
def test_memory_is_planned_on_the_device_that_trains(
    installed: list[int], index: int | None, number: int
) -> None:
    step = CallbackStep(None)
    with pytest.raises(DeviceError, match="has no planned memory yet"):
        _ = step.memory
    step.install(Device(index))  # type: ignore[arg-type]
    assert installed == [step.memory.device] == [number]


def test_memory_of_the_user_is_installed_once(
    installed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = PlannedMemory("naive", device=1)
    step = CallbackStep(memory)
    step.install(Device(1))  # type: ignore[arg-type]
    assert step.memory is memory
    monkeypatch.setattr(PlannedMemory, "installed", True)
    step.install(Device(1))  # type: ignore[arg-type]
    assert installed == [1]


def test_memory_of_another_device(installed: list[int]) -> None:
    rule = (
        r"^planned memory serves device 0, found training on device 3; "
        r"give PlannedMemory\(device=3\), or let the callback make one$"
    )
    with pytest.raises(DeviceError, match=rule):
        CallbackStep(PlannedMemory("naive")).install(Device(3))  # type: ignore[arg-type]
    assert installed == []


def test_a_step_that_nobody_ended_is_abandoned_when_the_next_begins() -> None:
    memory = PlannedMemory("naive")
    memory.attach(PlannedAllocator(SimulatedMemory(1 << 16, 1 << 20)))
    step = CallbackStep(memory)
    step.begin()
    step.begin()
    step.end()
    step.end()
    assert memory.report().steps == 2
    with memory.step():
        pass


def without(missing: tuple[str, ...], statement: str) -> str:
    """Run a statement in a process in which packages are not there."""
    script = f"import sys\nsys.modules.update(dict.fromkeys({missing}))\n{statement}"
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    ).stderr.strip()


@pytest.mark.parametrize(
    ("missing", "callback", "extra"),
    [
        (("transformers",), "PlannedTrainerCallback", "trainer"),
        (("lightning", "pytorch_lightning"), "PlannedLightningCallback", "lightning"),
    ],
)
def test_a_library_that_is_missing(missing: tuple[str, ...], callback: str, extra: str) -> None:
    (*_, said) = without(missing, f"from gpu_runtime.integrations import {callback}").splitlines()
    assert said.startswith("planners.errors.MissingDependencyError: planned memory in ")
    assert said.endswith(f"pip install 'gapless[{extra}]'")


def test_no_library_is_needed_for_what_is_not_asked_for() -> None:
    missing = ("torch", "transformers", "lightning", "pytorch_lightning")
    assert without(missing, "import gpu_runtime.integrations") == ""
    (*_, said) = without(missing, "from gpu_runtime.integrations import Nothing").splitlines()
    assert said.startswith("ImportError: cannot import name 'Nothing'")
