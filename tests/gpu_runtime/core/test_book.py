"""Which request of which kind of step comes next: found in order, and found again."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from gpu_runtime._core import (
    BETWEEN_STEPS,
    FIRST_ROLE,
    NO_PLACE,
    Book,
    KindPlan,
    MismatchKind,
    Place,
)
from tests.gpu_runtime.core.books import ARENA_BYTES, Slot, ask, exact, kind_plan, of_sizes

pytestmark = pytest.mark.core

# After so many requests a step is found again.
SOON = 16


def slots_of(places: list[Place]) -> list[int]:
    return [place.slot for place in places]


def test_an_empty_book_predicts_nothing_and_counts() -> None:
    places, end = ask(Book([], 0), of_sizes([1, 2, 3]))
    assert slots_of(places) == [-1, -1, -1]
    assert all(place.mismatch is None for place in places)
    assert (end.kind, end.unexpected, end.planned) == (-1, 3, 0)


def test_requests_in_order() -> None:
    kind = kind_plan([Slot(5, 5), Slot(10, 90, offset=512), Slot(7, 7, offset=NO_PLACE)])
    places, end = ask(Book([kind], 4096), of_sizes([5, 60, 7]))
    assert [(place.kind, place.slot, place.offset) for place in places] == [
        (0, 0, 0),
        (0, 1, 512),
        (0, 2, NO_PLACE),
    ]
    assert (end.kind, end.planned, end.escaping, end.missing) == (0, 2, 1, 0)


def test_a_place_serves_what_is_smaller_than_any_before() -> None:
    slots = [Slot(1000 * k, 2000 * k) for k in range(1, 9)]
    places, end = ask(
        Book([kind_plan(slots)], ARENA_BYTES), of_sizes([300 * k for k in range(1, 9)])
    )
    assert slots_of(places) == list(range(8))
    assert end.planned == 8


def test_a_spare_place_comes_along() -> None:
    kind = kind_plan([Slot(5, 5, offset=512, spare=1024)])
    (place,), _ = ask(Book([kind], 4096), of_sizes([5]))
    assert (place.offset, place.spare) == (512, 1024)


def mismatches(
    kind: KindPlan, requests: list[tuple[int, int]]
) -> list[tuple[MismatchKind, int, int]]:
    places, _ = ask(Book([kind], ARENA_BYTES), requests)
    return [
        (place.mismatch.kind, place.mismatch.request, place.mismatch.expected_bytes)
        for place in places
        if place.mismatch
    ]


def test_what_does_not_match_is_named() -> None:
    kind = exact([1000, 2000])
    assert mismatches(kind, of_sizes([1000, 77_000, 2000])) == [(MismatchKind.SIZE, 1, 2000)]
    assert mismatches(kind, of_sizes([1000, 2000, 50])) == [(MismatchKind.EXTRA, 2, -1)]
    assert mismatches(kind, [(0, 1000), (9, 2000), (0, 2000)]) == [(MismatchKind.STREAM, -1, -1)]


def test_what_is_much_larger_than_its_place_has_none() -> None:
    slots = [Slot(1000, 2000, offset=512), Slot(3000, 6000, offset=4096)]
    places, end = ask(Book([kind_plan(slots)], ARENA_BYTES), of_sizes([9000, 27_000]))
    assert slots_of(places) == [0, 1]
    assert [place.offset for place in places] == [NO_PLACE, NO_PLACE]
    assert end.grown == 2
    assert places[0].mismatch is not None
    assert places[0].mismatch.kind is MismatchKind.GROWN


def test_labels_are_kinds_of_their_own() -> None:
    book = Book([exact([5, 6]), exact([5, 6], 1), exact([5], BETWEEN_STEPS)], ARENA_BYTES)
    for label, kind, sizes in (
        (1, 1, [5, 6]),
        (0, 0, [5, 6]),
        (BETWEEN_STEPS, 2, [5]),
        (2, -1, [5]),
    ):
        places, end = ask(book, of_sizes(sizes), label)
        assert [place.kind for place in places] == [kind] * len(sizes)
        assert end.kind == kind


def test_the_first_request_chooses_by_its_size() -> None:
    kinds = [kind_plan([Slot(1, 10), Slot(1, 99)]), kind_plan([Slot(100, 1000), Slot(1, 99)])]
    for size, kind in ((5, 0), (500, 1), (20, 0), (60, 1), (4000, 1)):
        places, _ = ask(Book(kinds, ARENA_BYTES), of_sizes([size, 50]))
        assert [place.kind for place in places] == [kind, kind], size


def test_what_followed_before_chooses_where_sizes_do_not() -> None:
    # Three steps without the optimizer, one with it.
    book = Book([exact([5, 6, 7]), exact([5, 6, 7, 8, 9])], ARENA_BYTES)
    first_kinds = []
    for number in range(16):
        sizes = [5, 6, 7, 8, 9] if number % 4 == 3 else [5, 6, 7]
        places, end = ask(book, of_sizes(sizes))
        first_kinds.append(places[0].kind)
        assert end.kind == int(number % 4 == 3)
        assert end.unexpected == end.missing == 0
    assert first_kinds[8:] == [0, 0, 0, 1] * 2


def test_a_kind_with_a_common_beginning_takes_over() -> None:
    kinds = [exact([5, 6, 7, 8]), exact([5, 6, 17, 18]), exact([5, 6, 17, 28, 29])]
    for number, sizes in enumerate([[5, 6, 7, 8], [5, 6, 17, 18], [5, 6, 17, 28, 29]]):
        places, end = ask(Book(kinds, ARENA_BYTES), of_sizes(sizes))
        assert slots_of(places) == list(range(len(sizes)))
        assert [place.kind for place in places[3:]] == [number] * (len(sizes) - 3)
        assert (end.kind, end.unexpected) == (number, 0)


def test_a_lost_step_is_sought_in_other_kinds() -> None:
    rng = Random(1)
    one, other = ([rng.randint(1, 1 << 30) for _ in range(200)] for _ in range(2))
    places, end = ask(
        Book([exact(one), exact(other)], ARENA_BYTES), of_sizes(one[:50] + other[60:])
    )
    right = [(1, slot) for slot in range(60, 200)]
    assert [(place.kind, place.slot) for place in places[50 + SOON :]] == right[SOON:]
    assert end.kind == 1


def test_streams_by_role_are_who_asks_first_what_they_would() -> None:
    slots = [
        Slot(5, 5),
        Slot(6, 6, FIRST_ROLE + 1),
        Slot(7, 7, FIRST_ROLE + 2),
        Slot(8, 8, FIRST_ROLE + 1),
    ]
    book = Book([kind_plan(slots)], ARENA_BYTES)
    for _ in range(2):
        places, end = ask(book, [(0, 5), (1 << 40, 7), (99, 6), (99, 8)])
        assert slots_of(places) == [0, 2, 1, 3]
        assert end.unexpected == 0
    # Another one has no role left.
    (place,), _ = ask(book, [(98, 6)])
    assert place.mismatch is not None
    assert place.mismatch.kind is MismatchKind.STREAM


Coefficients = tuple[int, int, int, int]  # stream, and bytes by the length: 1, linear, square


def random_kind(rng: Random, *, streams: int, varies: bool) -> list[Coefficients]:
    """Return requests of which most have sizes of their own."""
    requests = []
    for _ in range(rng.randint(60, 300)):
        stream = 7 * rng.randrange(streams)
        if rng.random() < 0.4 or not varies:
            small = rng.random() < 0.2
            size = 512 * rng.randint(1, 3) if small else rng.randint(1, 1 << 24)
            requests.append((stream, size, 0, 0))
        elif rng.random() < 0.95:
            requests.append((stream, rng.choice([0, 512]), rng.randint(8, 1 << 16), 0))
        else:
            requests.append((stream, 0, 0, rng.randint(1, 64)))
    return requests


def at_length(kind: list[Coefficients], length: int) -> list[tuple[int, int]]:
    return [(s, max(1, a + b * length + c * length * length)) for s, a, b, c in kind]


def envelope(kind: list[Coefficients], lengths: tuple[int, ...]) -> KindPlan:
    steps = [at_length(kind, length) for length in lengths]
    return kind_plan(
        [
            Slot(min(size for _, size in seen), max(size for _, size in seen), seen[0][0])
            for seen in zip(*steps, strict=True)
        ]
    )


Labelled = list[tuple[tuple[int, int], int]]  # requests, and the slots that they are


def disturbed(rng: Random, step: Labelled, size: int) -> tuple[Labelled, int]:
    """Return a step with a disturbance of some requests, and where it is over."""
    at = rng.randrange(len(step))
    what = rng.choice(["added", "missing", "scaled", "shuffled"])
    touched = step[at : at + size]
    if what == "added":
        touched = [
            ((rng.choice(step)[0][0], rng.randint(1, 1 << 24)), -1) for _ in range(size)
        ] + touched
    elif what == "missing":
        touched = []
    elif what == "scaled":
        touched = [
            ((stream, max(1, int(1.7 * bytes_))), slot) for (stream, bytes_), slot in touched
        ]
    else:
        rng.shuffle(touched)
    return [*step[:at], *touched, *step[at + size :]], at + len(touched)


def interleaved(rng: Random, step: Labelled) -> Labelled:
    """Let requests of different streams pass each other."""
    step = list(step)
    for _ in range(3 * len(step)):
        k = rng.randrange(len(step) - 1)
        if step[k][0][0] != step[k + 1][0][0]:
            step[k], step[k + 1] = step[k + 1], step[k]
    return step


def wrong_after(book: Book, step: Labelled, begin: int) -> int:
    """Return how many requests of a step from one on are not predicted."""
    places, _ = ask(book, [request for request, _ in step])
    return sum(
        place.slot != slot for place, (_, slot) in list(zip(places, step, strict=True))[begin:]
    )


@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("length", [None, 128, 200, 384, 40, 900])
def test_a_disturbed_step_is_found_again(streams: int, length: int | None) -> None:
    """Sizes that were always the same, and lengths that were seen and that were not."""
    for seed in range(60):
        rng = Random(f"{streams} {length} {seed}")
        kind = random_kind(rng, streams=streams, varies=length is not None)
        book = Book([envelope(kind, (128, 384))], ARENA_BYTES)
        step = list(zip(at_length(kind, length or 128), range(len(kind)), strict=True))
        if streams > 1:
            step = interleaved(rng, step)
        step, begin = disturbed(rng, step, rng.choice([1, 2, 5, 20]))
        assert wrong_after(book, step, begin) <= SOON * streams, seed


@pytest.mark.parametrize("length", [20, 64, 128, 250, 384, 1000, 2000])
def test_a_length_never_seen_is_followed(length: int) -> None:
    for seed in range(60):
        rng = Random(seed)
        kind = random_kind(rng, streams=1, varies=True)
        book = Book([envelope(kind, (128, 384))], ARENA_BYTES)
        step = list(zip(at_length(kind, length), range(len(kind)), strict=True))
        assert wrong_after(book, step, 0) <= SOON, seed


@pytest.mark.parametrize("share", [0.4, 0.9, 1.1, 2.5])
def test_sizes_that_were_always_the_same_and_are_all_others(share: float) -> None:
    """The last batch of an epoch, which is smaller."""
    rng = Random(3)
    sizes = [rng.randint(1 << 16, 1 << 24) for _ in range(200)]
    step = [((0, int(share * size)), slot) for slot, size in enumerate(sizes)]
    assert wrong_after(Book([exact(sizes)], ARENA_BYTES), step, 0) <= SOON


def test_an_added_request_costs_no_more_than_itself() -> None:
    sizes = [700 * (k + 1) for k in range(30)]
    for at in (0, 5, 29):
        places, end = ask(
            Book([exact(sizes)], ARENA_BYTES), of_sizes([*sizes[:at], 99_999, *sizes[at:]])
        )
        assert slots_of(places) == [*range(at), -1, *range(at, 30)]
        assert (end.unexpected, end.missing, end.kind) == (1, 0, 0)


def test_missing_requests_are_counted() -> None:
    sizes = [700 * (k + 1) for k in range(40)]
    _, end = ask(Book([exact(sizes)], ARENA_BYTES), of_sizes(sizes[:10] + sizes[13:]))
    assert end.missing == 3 + end.unexpected
    _, end = ask(Book([exact(sizes)], ARENA_BYTES), of_sizes(sizes[:31]))
    assert (end.missing, end.unexpected) == (9, 0)


def test_a_step_that_is_mostly_others_is_of_no_kind() -> None:
    book = Book([exact([5, 6, 7])], ARENA_BYTES)
    assert ask(book, of_sizes([5, 90_000, 91_000, 92_000]))[1].kind == -1
    assert ask(book, of_sizes([5, 6, 7]))[1].kind == 0


def test_far_ahead_and_back() -> None:
    sizes = [1000 + k for k in range(8000)]
    book = Book([exact(sizes)], ARENA_BYTES)
    order = [*range(100), *range(4100, 4200), *range(150, 250)]
    places, _ = ask(book, of_sizes([sizes[k] for k in order]))
    wrong = [k for k, place in zip(order, places, strict=True) if place.slot != k]
    assert len(wrong) <= 2 * SOON


def test_places_of_other_sizes_are_not_moved() -> None:
    slots = [replace(Slot(5, 5), offset=512), replace(Slot(6, 6), offset=1024)]
    places, _ = ask(Book([kind_plan(slots)], 4096), of_sizes([5, 6]))
    assert [place.offset for place in places] == [512, 1024]
