"""Whether traces fit whose need can be seen."""

from __future__ import annotations

import pytest

from gpu_runtime.fitting.rank_fit import LIVE, Fits, RankFit
from gpu_runtime.fitting.replayed_program import ReplayedProgram
from gpu_runtime.fitting.traced_program import AskedProgram, Traced
from instances.traces.allocation_trace import AllocationTrace, Phase
from planners.errors import GaplessError, InstanceError
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.registry import choose_online, register_online
from tests.gpu_runtime.replaying.recordings import MIB

# Of a step: a block in whose place two others come, one of which fits there.
#
#   caching   [      40      ]   then   [    30    ]....[  20  ]   60 in all
#   planned   [      40      ]   then   [    30    ][  20  ]       50 in all
SIZES = (40 * MIB, 30 * MIB, 20 * MIB)
STEPS = 4


def fragmenting_trace() -> AllocationTrace:
    """Return steps that caching serves in 60 MiB and a plan in 50."""
    size, alloc, freed, marks = [], [], [], []
    for step in range(STEPS):
        first = 10 * step
        marks += [first, first + 7, first + 8]
        size += SIZES
        alloc += [first + 1, first + 3, first + 4]
        freed += [first + 2, first + 5, first + 6]
    return AllocationTrace(
        10 * STEPS, size, alloc, freed, freed,
        address=range(1, len(size) + 1),
        mark_event=marks,
        mark_phase=[Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER] * STEPS,
        mark_microbatch=[0] * len(marks),
        mark_iteration=[step for step in range(STEPS) for _ in range(3)],
    )  # fmt: skip


def replayed(
    trace: AllocationTrace,
    memory: int | None = None,
    allocators: str = "pytorch-caching,pytorch-expandable,planned",
) -> RankFit:
    program = ReplayedProgram(AskedProgram("net"), choose_online(allocators), memory)
    return program.replayed(Traced("net", trace))


def checked(room: int | None, allocators: str = "pytorch-caching,planned") -> RankFit:
    return replayed(fragmenting_trace(), room, allocators)


def test_without_a_limit_it_says_what_is_needed() -> None:
    check = checked(None)
    found = [(row.label, row.reserved_peak, row.fits) for row in check.rows]
    assert found == [
        (LIVE, 50 * MIB, None), ("pytorch-caching", 60 * MIB, None), ("planned", 50 * MIB, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("room", "answer", "fitting"),
    [
        (60, Fits.YES, ["pytorch-caching", "planned"]),
        (59, Fits.ONLY_PLANNED, ["planned"]),
        (50, Fits.ONLY_PLANNED, ["planned"]),
        (49, Fits.NO, []),
    ],
)
def test_the_answer_changes_where_the_room_does(
    room: int, answer: Fits, fitting: list[str]
) -> None:
    check = checked(room * MIB)
    assert (check.answer, check.fitting) == (answer, fitting)
    assert not any(row.gives_back(room * MIB) for row in check.rows)


def test_idle_memory_that_goes_back_makes_room() -> None:
    """A segment of 40 MiB that nothing uses any more stands in the way of one of 50 MiB."""
    trace = AllocationTrace(5, [40 * MIB, 50 * MIB], [0, 2], [1, 4], [1, 4], address=[1, 2])
    _, caching = replayed(trace, 60 * MIB, "pytorch-caching").rows
    assert (caching.reserved_peak, caching.fits) == (90 * MIB, True)
    assert caching.gives_back(60 * MIB)
    assert not caching.gives_back(None)
    _, tight = replayed(trace, 49 * MIB, "pytorch-caching").rows
    assert tight.fits is False


def test_refuses_a_trace_without_requests() -> None:
    nothing = AllocationTrace(1, [], [], [], [], name="empty")
    with pytest.raises(InstanceError, match="empty: at least one request for memory is needed"):
        replayed(nothing)


@pytest.fixture
def broken(own_registry: None) -> str:  # noqa: ARG001
    @register_online("broken-one")
    def broken_one(_requests: RequestSequence, _terms: OnlineTerms) -> OnlineResult:
        """Fail."""
        raise ValueError("no such pool")

    return "broken-one"


def test_an_allocator_that_fails_is_named(broken: str) -> None:
    with pytest.raises(GaplessError, match="broken-one: ValueError: no such pool"):
        checked(None, broken)
