"""The programs on a CPU: they run, the same steps whoever plans, and each of them ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu_runtime.integrations.both_allocators import run_on_two

pytestmark = pytest.mark.torch

# The steps of each program, and the fewest that follow a plan. The Trainer evaluates and logs
# between steps. Workers of a loader prefetch, so that its kinds of step hang on their timing; a
# plan waits until no new kind comes.
STEPS = {
    "plain_loop": (10, 6),
    "inline_loop": (10, 5),
    "accumulation_in_a_step": (10, 6),
    "accumulation_over_steps": (20, 3),
    "checkpoint_and_resume": (20, 6),
    "compiled": (10, 6),
    "autocast": (10, 6),
    "activation_checkpointing": (10, 6),
    "workers_forked": (10, 0),
    "workers_spawned": (10, 0),
    "threads": (10, 6),
    "interrupted_cell": (21, 6),
    "trainer": (10, 0),
    "trainer_resumed": (15, 0),
    "trainer_interrupted": (14, 0),
    "lightning": (20, 1),
}


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


def test_every_program_is_tried() -> None:
    from tests.gpu_runtime.integrations.programs import PROGRAMS

    assert set(PROGRAMS) == set(STEPS)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("data_parallel", 10),
        ("fully_sharded", 10),
        ("fully_sharded_with_checkpointing", 10),
        ("trainer", 10),
        ("lightning", 20),
    ],
)
def test_a_program_of_two_processes_on_a_cpu(name: str, steps: int, tmp_path: Path) -> None:
    (ranks,) = run_on_two(name, "cpu", tmp_path, ("planned",))
    for planned in ranks:
        assert len(planned["losses"]) >= planned["report"]["steps"] == steps
    assert planned["parameters"] != ""
