"""Programs on a CPU: they compute the same with planned memory, and each of them ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpu_runtime import PlannedMemory
from gpu_runtime._core import LedgerMemory, PlannedAllocator
from tests.gpu_runtime.integrations.both_allocators import run_on_two

pytestmark = pytest.mark.torch

# The steps of each program, and the fewest that follow a plan. The Trainer evaluates and logs
# between steps.
STEPS = {
    "inline_loop": (10, 5),
    "checkpoint_and_resume": (20, 6),
    "threads": (10, 6),
    "interrupted_cell": (21, 6),
    "trainer": (10, 0),
    "trainer_resumed": (15, 0),
    "trainer_interrupted": (14, 0),
    "lightning": (20, 1),
}
# The same for programs of the list of programs. The workers of a loader prefetch, so that the kinds
# of its steps depend on their timing.
LISTED = {"plain": (10, 6), "microbatches": (10, 6), "accumulate": (10, 0), "data-loader": (10, 0)}


@pytest.fixture
def _settings_of_torch() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as large as these programs are, more of them wait for one another
    yield
    torch.set_num_threads(before)
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_settings_of_torch")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STEPS)
def test_a_program_on_a_cpu(name: str) -> None:
    from tests.gpu_runtime.integrations.programs import main

    native, planned = (main(name, kind, "cpu") for kind in ("native", "planned"))
    assert planned["losses"] == native["losses"] != []
    assert planned["parameters"] == native["parameters"] != ""
    steps, planned_steps = STEPS[name]
    assert planned["report"]["steps"] == steps
    assert planned["report"]["planned_steps"] >= planned_steps
    assert planned.get("wrong", []) == []


@pytest.mark.usefixtures("_settings_of_torch")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LISTED)
def test_a_listed_program_on_a_cpu(name: str) -> None:
    from evaluation.programs.program_list import PROGRAMS
    from gpu_runtime.training.allocator_probe import AllocatorProbe
    from gpu_runtime.training.program_run import run_program
    from gpu_runtime.training.training_run import Purpose, Scale
    from tests.gpu_runtime.online.allocating_mode import AllocatingMode

    memory = PlannedMemory(time_limit=5.0, _planning="between")
    allocator = PlannedAllocator(LedgerMemory(2 << 20, 1 << 40))
    memory.attach(allocator)

    class PlannedProbe(AllocatorProbe):
        def step(self) -> AbstractContextManager[object]:
            return memory.step()

    steps, planned_steps = LISTED[name]
    timed = PROGRAMS[name].timed_run(Scale.TINY, turns=1, turn_steps=steps - 3, device="cpu")
    run = replace(timed, purpose=Purpose.CHECK, warm_up=2)
    native = run_program(run, AllocatorProbe())
    with AllocatingMode(allocator, 64):
        planned = run_program(run, PlannedProbe())
    assert planned.losses == native.losses
    assert planned.parameters == native.parameters
    report = memory.report()
    assert report.steps == steps
    assert report.planned_steps >= planned_steps
    assert report.allocated_bytes > 0


def test_every_program_is_tried() -> None:
    from tests.gpu_runtime.integrations.programs import PROGRAMS

    assert set(PROGRAMS) == set(STEPS)


@pytest.mark.parametrize(
    ("name", "steps"), [("fully_sharded", 10), ("trainer", 10), ("lightning", 20)]
)
def test_a_program_of_two_processes_on_a_cpu(name: str, steps: int, tmp_path: Path) -> None:
    (ranks,) = run_on_two(name, "cpu", tmp_path, ("planned",))
    for planned in ranks:
        assert len(planned["losses"]) >= planned["report"]["steps"] == steps
    assert planned["parameters"] != ""
