"""The moment that is explained, held against the allocator that ran out of memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.explaining.explained_moment import find_moment
from instances.traces.memory_state import BlockState, Segment
from tests.gpu_runtime.explaining.recorded_oom import POOLS, Program
from tests.gpu_runtime.replaying.recordings import MIB

STATE_NAMES = {
    "active_allocated": BlockState.LIVE,
    "active_awaiting_free": BlockState.WAITING,
    "inactive": BlockState.FREE,
}


def listed(segments: Iterable[Segment]) -> list[Any]:
    return sorted(
        (
            one.address, one.size, one.stream, bool(one.pool),
            [
                (its.address, its.size, its.requested if its.state is BlockState.LIVE else 0,
                 its.state.name)
                for its in one.blocks
            ],
        )
        for one in segments
    )  # fmt: skip


def expected(segments: Iterable[dict[str, Any]]) -> list[Any]:
    return sorted(
        (
            one["address"], one["total_size"], one["stream"], one["segment_pool_id"] != POOLS[0],
            [
                (its["address"], its["size"],
                 its["requested_size"] if its["state"] == "active_allocated" else 0,
                 STATE_NAMES[its["state"]].name)
                for its in one["blocks"]
            ],
        )
        for one in segments
    )  # fmt: skip


@pytest.mark.parametrize("is_expandable", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_segments_are_those_when_memory_ran_out(
    tmp_path: Path, seed: int, is_expandable: bool
) -> None:
    program = Program(160 * MIB, seed, is_expandable=is_expandable)
    program.run(turns=10 * seed)
    assert program.at_failure is not None
    for forgotten in (0, len(program.events) // 3):
        path = program.write(tmp_path / "run.pickle", forgotten=forgotten)
        moment = find_moment(path, None, None)
        assert listed(moment.segments) == expected(program.at_failure)
        assert moment.room == program.capacity
        assert moment.failed is not None


def test_what_is_too_short_for_a_block_is_of_the_block_before(tmp_path: Path) -> None:
    program = Program(64 * MIB)
    _, freed = (program.allocate(23 * MIB // 2) for _ in range(2))
    assert freed is not None
    assert program.allocate(50 * MIB) is None
    assert program.at_failure is not None
    # The next event is that of a segment.
    program.allocate(2 * MIB)
    program.free(freed)
    moment = find_moment(program.write(tmp_path / "oom.pickle"), None, None)
    assert listed(moment.segments) == expected(program.at_failure)
    assert [block.size for one in moment.segments for block in one.blocks] == [12 * MIB] * 2
