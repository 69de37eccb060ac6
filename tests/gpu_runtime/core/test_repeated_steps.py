"""Steps that repeat exactly: their kinds, and when a plan is followed, left or dropped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpu_runtime._core import (
    BETWEEN,
    NO_PLACE,
    OUTLIVES,
    MismatchKind,
    PlannedAllocator,
    SimulatedMemory,
    StepEnd,
    StepKind,
    StepPlan,
)
from tests.gpu_runtime.core.small_plans import small_plan

pytestmark = pytest.mark.core

PAGE = 4096
# The bytes of a request, or a free: the number of the request whose block it is, less 100.
Events = Sequence[int]
A: Events = (1000, -100, 2 * PAGE, -99)
B: Events = (3000, 500, -100, -99)


class Program:
    """Steps on one stream."""

    def __init__(self, arena_pages: int = 8) -> None:
        self.allocator = PlannedAllocator(SimulatedMemory(PAGE, 1 << 30))
        self.arena = arena_pages * PAGE
        self.escaped: list[int] = []
        self.addresses: list[int] = []

    def step(self, events: Events, label: int = 0, *, completed: bool = True) -> StepEnd:
        self.allocator.begin_step(label)
        self.addresses = [0] * sum(event > 0 for event in events)
        requests = 0
        live = set()
        for event in events:
            if event > 0:
                self.addresses[requests] = self.allocator.allocate(event)
                live.add(requests)
                requests += 1
            else:
                live.remove(event + 100)
                assert self.allocator.free(self.addresses[event + 100])
        self.escaped += [self.addresses[request] for request in sorted(live)]
        return self.allocator.end_step(completed)

    def free_escaped(self) -> None:
        while self.escaped:
            self.allocator.free(self.escaped.pop(0))

    def adopt_all(self) -> None:
        """Plan all kinds that repeat, each request at a place of its own."""
        self.allocator.adopt([side_by_side(kind) for kind in self.allocator.to_plan()], self.arena)

    def followed(self, *steps: Events) -> list[bool]:
        return [self.step(events).is_planned for events in steps]


def side_by_side(kind: StepKind) -> StepPlan:
    stream, size, _ = kind.requests.T.copy()
    rounded = -(-size // 512) * 512
    return StepPlan(kind.number, stream, size, np.cumsum(rounded) - rounded)


@pytest.mark.parametrize(
    "other",
    [
        (1001, -100, 2 * PAGE, -99),
        (1000, -100, 2 * PAGE),
        (1000, 2 * PAGE, -100, -99),
        (*A, 1000, -98),
        A[:2],
        (),
    ],
    ids=["another size", "no free", "a later free", "one more", "one less", "nothing"],
)
def test_steps_with_other_requests_or_frees_are_of_another_kind(other: Events) -> None:
    program = Program()
    ends = [program.step(events).kind for events in (A, other, A, other)]
    assert ends == [0, 1, 0, 1]
    assert [kind.seen for kind in program.allocator.kinds()] == [2, 2]
    # The same under another label is another kind.
    assert program.step(A, 3).kind == 2
    assert [kind.label for kind in program.allocator.kinds()] == [0, 0, 3]


def test_a_kind_has_the_requests_in_order_and_the_times_of_their_frees() -> None:
    program = Program()
    program.step((1000, 2000, -100, 3000, 4000, -98))
    (kind,) = program.allocator.kinds()
    assert kind.requests.tolist() == [
        [0, 1000, 2], [0, 2000, OUTLIVES], [0, 3000, 4], [0, 4000, OUTLIVES]
    ]  # fmt: skip
    assert kind.late_frees.tolist() == []
    assert program.allocator.to_plan() == []


@pytest.mark.parametrize("when", ["between steps", "within the next step", "beside a request"])
def test_frees_of_an_earlier_steps_blocks_count(when: str) -> None:
    program = Program()
    program.step((1000,))
    if when == "within the next step":
        program.allocator.begin_step()
        last = program.allocator.allocate(1000)
        program.free_escaped()
        kind = program.allocator.end_step().kind
        program.escaped.append(last)
        expected = [[0, 0, 1, 1]]
    elif when == "between steps":
        program.free_escaped()
        kind = program.step((1000,)).kind
        expected = [[0, 0, 0, 1]]
    else:
        # Requests between steps form a kind of their own, and the free belongs to it.
        beside = program.allocator.allocate(700)
        program.free_escaped()
        program.allocator.free(beside)
        assert program.step((1000,)).kind == 0
        kind, expected = 1, [[0, 0, 1, 1]]
    kinds = {each.number: each for each in program.allocator.kinds()}
    assert kinds[kind].late_frees.tolist() == expected
    assert kinds[kind].label == (BETWEEN if when == "beside a request" else 0)


def test_a_kind_that_was_seen_twice_is_planned_with_all_that_repeat() -> None:
    program = Program()
    seen = []
    for events in (A, B, (), A, (), B):
        program.step(events)
        seen.append([kind.number for kind in program.allocator.to_plan()])
    assert seen == [[], [], [], [0], [0], [0, 1]]
    assert not program.allocator.has_plans
    program.adopt_all()
    assert program.allocator.has_plans
    assert program.allocator.to_plan() == [], "no news"


def test_a_step_that_an_exception_ended_teaches_nothing() -> None:
    program = Program()
    for _ in range(5):
        end = program.step(A, completed=False)
        assert (end.kind, end.is_planned) == (-1, False)
    assert program.allocator.kinds() == []
    program.step((1000,), completed=False)
    program.free_escaped()
    assert program.step(A).kind == 0
    assert program.allocator.kinds()[0].late_frees.tolist() == []
    for _ in range(5):
        program.step(A)
    program.adopt_all()
    for events in (B, A[:2], B, A[:2], B):
        program.step(events, completed=False)
    assert program.followed(A) == [True], "the plan stays, and A is expected after A"


def test_the_requests_of_a_planned_step_get_their_places_without_device_calls() -> None:
    program = Program()
    for _ in range(2):
        program.step(A)
    program.adopt_all()
    program.step(A)
    (first, second), before = program.addresses, program.allocator.figures().moved_bytes
    assert second == first + 1024
    end = program.step(A)
    assert (end.kind, end.is_planned, end.planned, end.unexpected) == (0, True, 2, 0)
    assert program.addresses == [first, second]
    figures = program.allocator.figures()
    assert (figures.steps, figures.planned_steps, figures.planned_requests) == (4, 2, 4)
    assert figures.moved_bytes == before
    assert program.allocator.mismatches() == []


@pytest.mark.parametrize(
    ("requests", "mismatch", "planned"),
    [
        ([(1000, 0), (2 * PAGE, 3)], (MismatchKind.STREAM, 1, 2 * PAGE), 1),
        ([(1000, 0), (2 * PAGE + 1, 0)], (MismatchKind.SIZE, 1, 2 * PAGE), 1),
        ([(999, 0), (2 * PAGE, 0)], (MismatchKind.SIZE, 0, 1000), 0),
        ([(1000, 0), (2 * PAGE, 0), (5, 0)], (MismatchKind.EXTRA, 2, -1), 2),
        ([(1000, 0)], None, 1),
    ],
)
def test_the_first_request_that_differs_makes_the_step_leave_its_plan(
    requests: list[tuple[int, int]], mismatch: tuple[MismatchKind, int, int] | None, planned: int
) -> None:
    program = Program()
    program.allocator.adopt([small_plan([(1000, 0), (2 * PAGE, PAGE)])], 8 * PAGE)
    program.allocator.begin_step()
    for size, stream in requests:
        program.allocator.allocate(size, stream)
    end = program.allocator.end_step()
    assert (end.is_planned, end.planned) == (False, planned)
    assert end.unexpected == (len(requests) - planned)
    told = [
        (each.kind, each.request, each.expected_bytes) for each in program.allocator.mismatches()
    ]
    assert told == ([] if mismatch is None else [mismatch])
    for each in program.allocator.mismatches():
        assert (each.step, each.bytes, each.stream) == (0, *requests[each.request])


def test_a_step_goes_on_after_a_place_that_is_occupied() -> None:
    program = Program()
    program.allocator.adopt([small_plan([(1000, 0), (PAGE, 0), (500, PAGE)])], 8 * PAGE)
    end = program.step((1000, PAGE, 500))
    assert (end.planned, end.unexpected, end.is_planned) == (2, 1, False)
    (told,) = program.allocator.mismatches()
    assert (told.kind, told.request, told.bytes) == (MismatchKind.IN_USE, 1, PAGE)
    program.allocator.check()
    assert len(set(program.addresses)) == 3


def test_the_plans_of_one_kind_are_followed_in_turn() -> None:
    program = Program()
    kind = program.step((1000, -100)).kind
    plans = [
        StepPlan(kind, np.array([0]), np.array([1000]), np.array([offset]))
        for offset in (0, 2 * PAGE)
    ]
    program.allocator.adopt(plans, program.arena)
    places = []
    for _ in range(4):
        assert program.step((1000, -100)).is_planned
        places += program.addresses
    assert [place - min(places) for place in places] == [0, 2 * PAGE] * 2


def test_a_late_free_tells_how_many_steps_of_the_kind_came_between() -> None:
    program = Program()
    ages = []
    for number in range(8):
        if number >= 3:
            program.allocator.free(program.escaped.pop(0))
        end = program.step((1000,))
        kinds = {kind.number: kind for kind in program.allocator.kinds()}
        ages.append([row[3] for row in kinds[end.kind].late_frees.tolist()])
    # Steps that free a block are of another kind than the first three. From the seventh on they
    # free blocks of their own kind.
    assert ages == [[], [], [], [3], [2], [1], [3], [3]]


def test_requests_without_a_place_are_expected() -> None:
    program = Program()
    program.allocator.adopt([small_plan([(1000, NO_PLACE), (PAGE, 0)])], PAGE)
    end = program.step((1000, PAGE, -99))
    assert (end.is_planned, end.escaping, end.planned) == (True, 1, 1)
    assert program.allocator.figures().escaping_requests == 1


def test_a_plan_that_is_left_three_times_in_a_row_goes_and_returns_after_twice_as_many() -> None:
    program = Program()
    others = [(size, -100) for size in range(100, 200)]
    for needed in (2, 4, 8):
        for _ in range(needed):
            assert program.allocator.to_plan() == []
            program.step(A)
        program.adopt_all()
        assert program.followed(A, others.pop(), others.pop(), A) == [True, False, False, True]
        assert program.followed(others.pop(), others.pop()) == [False, False]
        assert program.allocator.has_plans
        assert program.followed(others.pop()) == [False]
        assert not program.allocator.has_plans


def test_another_plan_takes_over_if_it_has_all_requests_so_far() -> None:
    program = Program()
    longer, other = (*A, 500, -98), (*A, 600, -98)
    for _ in range(2):
        program.followed(A, A, B, longer, other)
    program.adopt_all()
    # After A came A, then B: the last time counts, and then what the requests say.
    assert program.followed(A, A, B, longer, other, A) == [True] * 6
    assert program.followed((*A, 700, -98)) == [False]


def test_a_plan_that_was_made_elsewhere_serves_the_first_step_and_gets_its_kind() -> None:
    program = Program()
    plan = [(1000, 0), (2 * PAGE, 512 * 2)]
    program.allocator.adopt([small_plan(plan)], 8 * PAGE)
    assert program.followed(A, A, A) == [True] * 3
    assert program.allocator.to_plan() == [], "it is the plan of this kind by now"
