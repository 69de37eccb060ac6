"""When a book is adopted, when it stays, and why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from gpu_runtime._core import TrialTerms
from gpu_runtime.allocator import book_adoption
from gpu_runtime.allocator.book_adoption import EQUAL_PAGES, EQUAL_SHARE, BookTrial
from gpu_runtime.allocator.book_problem import NO_GUESTS
from tests.gpu_runtime.allocator.synthetic_training import (
    PAGE_BYTES,
    SETTLED_STEPS,
    Life,
    Program,
    Request,
    Training,
    served,
)

PEAK = 1 << 30


@dataclass(frozen=True)
class Cost:
    """An outcome, and a stand-in of the book that has it."""

    reserved_peak: int = PEAK
    memory_calls: int = 100
    host_waits: int = 1
    served: int = 5
    unserved: int = 5
    arena_bytes: int = PEAK // 2

    def core_book(self) -> Cost:
        return self


ALONE = Cost()
SAME = Cost()
NOISE = int(EQUAL_SHARE * PEAK) + EQUAL_PAGES * PAGE_BYTES
MORE = [
    replace(ALONE, host_waits=2),
    replace(ALONE, memory_calls=101 + EQUAL_PAGES),
    replace(ALONE, reserved_peak=PEAK + NOISE + 1),
    # Better in one way does not make up for another.
    replace(ALONE, memory_calls=0, host_waits=2),
]
BETTER = [
    replace(SAME, host_waits=0),
    replace(SAME, memory_calls=99 - EQUAL_PAGES),
    replace(SAME, reserved_peak=PEAK - NOISE - 1),
    replace(SAME, unserved=4),
    replace(SAME, arena_bytes=PEAK // 4),
]


def decide(monkeypatch: pytest.MonkeyPatch, in_force: Cost | None, candidate: Cost | None) -> Any:
    """Decide where outcomes are those of the books, and of `ALONE` without one."""
    monkeypatch.setattr(
        book_adoption, "try_book", lambda _logs, _terms, book, _guests: book or ALONE
    )
    terms = TrialTerms(PAGE_BYTES, False, PEAK, PEAK)
    books: Any = (in_force, candidate)
    return BookTrial([], terms, NO_GUESTS).decide(*books)


@pytest.mark.parametrize("candidate", [SAME, *BETTER, replace(SAME, reserved_peak=PEAK + NOISE)])
def test_a_first_book_that_costs_no_more_than_none_is_adopted(
    monkeypatch: pytest.MonkeyPatch, candidate: Cost
) -> None:
    decision = decide(monkeypatch, None, candidate)
    assert (decision.book, decision.core_book, decision.reason) == (candidate, candidate, "")


@pytest.mark.parametrize("candidate", MORE)
def test_a_book_that_costs_more_is_refused(
    monkeypatch: pytest.MonkeyPatch, candidate: Cost
) -> None:
    for in_force in (None, SAME, replace(SAME, memory_calls=999)):
        decision = decide(monkeypatch, in_force, candidate)
        assert (decision.book, decision.core_book) == (in_force, None)
        assert decision.reason.startswith("a plan needs ")
    assert decision.excess == f"a plan needs 999 device calls in a trial, not {100 + EQUAL_PAGES}"


def test_a_book_that_misses_more_requests_than_it_serves_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for in_force in (None, SAME):
        decision = decide(monkeypatch, in_force, replace(SAME, served=4, memory_calls=0))
        assert (decision.book, decision.core_book) == (in_force, None)
        assert decision.reason.startswith("a plan serves 4 requests in a trial and misses 5")


def test_a_book_without_a_place_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    decision = decide(monkeypatch, SAME, replace(SAME, arena_bytes=0, memory_calls=0))
    assert (decision.book, decision.core_book, decision.reason) == (SAME, None, "")


@pytest.mark.parametrize("candidate", BETTER)
def test_a_book_replaces_another_if_it_is_better(
    monkeypatch: pytest.MonkeyPatch, candidate: Cost
) -> None:
    assert decide(monkeypatch, SAME, candidate).core_book is candidate
    assert decide(monkeypatch, candidate, SAME).core_book is None
    assert decide(monkeypatch, SAME, SAME).core_book is None


def test_a_book_that_is_better_in_one_way_and_worse_in_another_replaces_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_force = replace(SAME, memory_calls=50)
    for better in (BETTER[0], BETTER[3]):
        candidate = replace(better, memory_calls=51 + EQUAL_PAGES)
        assert decide(monkeypatch, in_force, candidate).core_book is None


@pytest.mark.parametrize("in_force", MORE)
def test_a_book_that_became_costly_is_replaced_by_any_that_is_not(
    monkeypatch: pytest.MonkeyPatch, in_force: Cost
) -> None:
    decision = decide(monkeypatch, in_force, None)
    assert (decision.book, decision.core_book, bool(decision.excess)) == (in_force, None, True)
    assert decide(monkeypatch, in_force, SAME).core_book is SAME


def unlike(rng: Random) -> Program:
    """A step of a number and of sizes of the moment, of which many live at once."""
    count = rng.randint(100, 160)
    sizes = [rng.choice([rng.randint(1, 3000), rng.randint(1, 250_000)]) for _ in range(count)]
    lives = [rng.randint(1, 80) for _ in range(count)]
    return [
        Request(size, 0, Life.WITHIN, min(k + life, count))
        for k, (size, life) in enumerate(zip(sizes, lives, strict=True))
    ]


def test_a_book_goes_when_steps_are_no_longer_like_it() -> None:
    training, rng = Training("auto"), Random(1)
    steady = unlike(rng)
    training.run(steady, SETTLED_STEPS)
    assert served(training, steady)
    for _ in range(3):
        # One step now and then does not end a book.
        training.step(unlike(rng))
        for _ in range(2):
            assert served(training, steady)
    for _ in range(40):
        training.step(unlike(rng))
    report = training.memory.report()
    assert (report.status, report.plans) == ("unplanned", 1)
    assert report.reason.startswith("a plan needs ")
    assert report.advice.startswith("no plan pays; the heap alone serves these steps better.")
    assert f"advice     {report.advice}\n" in str(report)
    planned = report.planned_steps
    training.run(steady, 70)
    assert served(training, steady)
    report = training.memory.report()
    assert (report.planned_steps > planned, report.advice) == (True, "")
    training.check_account()
    training.free_all()
