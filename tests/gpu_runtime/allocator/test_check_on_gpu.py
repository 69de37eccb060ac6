"""Writes to freed memory on a GPU are found by its kernels, and no program is accused wrongly."""

from __future__ import annotations

from functools import partial

import pytest

from tests.gpu_runtime.allocator.check_sizes import SIZE, STEPS, WRONG_IN
from tests.gpu_runtime.own_processes import answer_of

pytestmark = pytest.mark.gpu

run = partial(answer_of, "tests.gpu_runtime.allocator.check_programs")


def test_a_right_program_with_streams_is_not_accused() -> None:
    found = run("record_stream")
    assert (found["errors"], found["overwrites"]) == ({}, [])
    assert found["planned"] > 0
    assert len(found["losses"]) == STEPS


@pytest.mark.parametrize("program", ["unrecorded", "address"])
def test_a_write_after_free_is_told_at_the_steps_end(program: str) -> None:
    found = run(program)
    ((step, error),) = found["errors"].items()
    assert int(step) == WRONG_IN
    assert "written to while it was free" in error
    assert "written to while it was free" in found["text"]
    # Each wrong word is found once: by who got it in that step, or when all was looked at.
    assert sum(size for size, _ in found["overwrites"]) == SIZE
    assert set(found["tenants"]) == {SIZE}


def test_a_graph_does_not_stamp_when_it_is_replayed() -> None:
    assert run("graph") == {"value": 6.0, "overwrites": 0}
