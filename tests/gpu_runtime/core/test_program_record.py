"""What the core learns from logs, held against an account that goes request by request."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from gpu_runtime._core import (
    BETWEEN_STEPS,
    FIRST_ROLE,
    MOST_KINDS,
    REPEATED,
    KindRecord,
    LogKind,
    ProgramRecord,
)

pytestmark = pytest.mark.core

Row = tuple[int, ...]
# A kind, in these tests, is known by its label and its number of requests.
Name = tuple[int, int]


@dataclass
class Account:
    """What is to be known of the requests of one kind, by slot."""

    most: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    end: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    short_end: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    freed: set[int] = field(default_factory=set)
    renewed: set[int] = field(default_factory=set)
    later: dict[tuple[Name, int], int] = field(default_factory=lambda: defaultdict(int))
    seen: int = 0


class Accounts:
    """Follows every request from segment to segment."""

    def __init__(self) -> None:
        self.of: dict[Name, Account] = defaultdict(Account)
        self._living: dict[int, tuple[Name, int]] = {}

    def add(self, label: int, rows: list[Row]) -> None:
        made = [row for row in rows if row[0] == LogKind.REQUEST]
        count, name = len(made), (label, len(made))
        ends: dict[int, int] = {}
        asked = 0
        for row in rows:
            if row[0] == LogKind.REQUEST:
                asked += 1
            else:
                ends[row[1]] = asked
        own = self.of[name]
        own.seen += 1
        for request, (theirs, slot) in list(self._living.items()):
            end = ends.get(request, count)
            account = self.of[theirs]
            account.later[name, slot] = max(account.later[name, slot], end)
            if theirs == name and end > slot:
                account.renewed.add(slot)
            if request in ends:
                account.freed.add(slot)
                del self._living[request]
        for slot, (_, request, size, *_) in enumerate(made):
            own.most[slot] = max(own.most[slot], size)
            own.end[slot] = max(own.end[slot], ends.get(request, count))
            if request in ends:
                own.freed.add(slot)
                own.short_end[slot] = max(own.short_end[slot], ends[request])
            elif slot not in own.freed & own.renewed or own.short_end[slot]:
                self._living[request] = (name, slot)


def random_log(rng: Random) -> list[tuple[int, list[Row]]]:
    """Return labels and rows of segments, as many between steps as steps."""
    sizes = {(label, n): [rng.randint(1, 5000) for _ in range(n)] for label, n in _names(rng)}
    living: list[int] = []
    segments, number = [], 0
    for index in range(2 * rng.randint(3, 25)):
        label = rng.randint(0, 1) if index % 2 else BETWEEN_STEPS
        choice = [name for name in sizes if name[0] == label] if label >= 0 or index % 3 else []
        rows: list[Row] = []
        for size in sizes[rng.choice(choice)] if choice else []:
            while living and rng.random() < 0.4:
                at = rng.choice([0, -1, rng.randrange(len(living))])
                rows.append((LogKind.FREE, living.pop(at), 0, 0, -1, -1))
            bytes_now = int(size * rng.choice([1, 1, 1.5]))
            rows.append((LogKind.REQUEST, number, bytes_now, 0, -1, -1))
            living.append(number)
            number += 1
        while choice and living and rng.random() < 0.5:
            rows.append((LogKind.FREE, living.pop(), 0, 0, -1, -1))
        segments.append((label, rows))
    return segments


def _names(rng: Random) -> list[Name]:
    steps = [(label, rng.randint(1, 12)) for label in (0, 0, 0, 1, 1)]
    return [*steps, (BETWEEN_STEPS, rng.randint(1, 5))]


def log_of(*segments: tuple[int, list[Row]]) -> NDArray[np.int64]:
    rows: list[Row] = []
    for label, its in segments:
        is_step = label != BETWEEN_STEPS
        begin: list[Row] = [(LogKind.STEP_BEGINS, -1, label, 0, -1, -1)] if is_step else []
        end: list[Row] = [(LogKind.STEP_ENDS, -1, 0, 0, -1, -1)] if is_step else []
        rows += begin + its + end
    return np.array(rows, dtype=np.int64).reshape(-1, 6)


def check(kind: KindRecord, account: Account, names: dict[int, Name]) -> None:
    slots = range(len(kind.stream))
    assert kind.seen == account.seen
    assert kind.most.tolist() == [account.most[slot] for slot in slots]
    assert kind.end.tolist() == [account.end[slot] for slot in slots]
    assert kind.short_end.tolist() == [account.short_end[slot] for slot in slots]
    assert kind.was_freed.tolist() == [slot in account.freed for slot in slots]
    assert kind.renewed.tolist() == [slot in account.renewed for slot in slots]
    for number, ends in kind.later.items():
        if number in names:
            assert ends.tolist() == [account.later[names[number], slot] for slot in slots]
    known = {names[number] for number in kind.later if number in names}
    assert {name for (name, _), end in account.later.items() if end} == known


def what_a_plan_knows(record: ProgramRecord) -> list[object]:
    known: list[object] = []
    for kind in record.kinds():
        if kind.seen >= REPEATED:
            columns = (kind.most, kind.end, kind.short_end, kind.was_freed, kind.renewed)
            later = {number: ends.tolist() for number, ends in kind.later.items()}
            known.append((kind.number, [column.tolist() for column in columns], later))
    return known


@pytest.mark.parametrize("seed", range(60))
def test_random_logs_by_an_account_of_each_request(seed: int) -> None:
    record, accounts = ProgramRecord([]), Accounts()
    segments = random_log(Random(seed))
    for between, step in zip(segments[::2], segments[1::2], strict=True):
        before, version = what_a_plan_knows(record), record.version
        record.add(log_of(between, step), [])
        for label, rows in (between, step):
            accounts.add(label, rows)
        if record.version == version:
            assert what_a_plan_knows(record) == before
        names = {kind.number: (kind.label, len(kind.stream)) for kind in record.kinds()}
        for kind in record.kinds():
            check(kind, accounts.of[names[kind.number]], names)


def test_a_step_that_repeats_is_news_twice() -> None:
    record = ProgramRecord([])
    versions = []
    for number in range(5):
        rows: list[Row] = [
            (LogKind.REQUEST, number, 600, 0, -1, -1),
            (LogKind.FREE, number, 0, 0, -1, -1),
        ]
        record.add(log_of((0, rows)), [])
        versions.append(record.version)
    assert versions == [0, 1, 1, 1, 1]
    assert record.newest_request == 4


def test_a_kind_of_a_file_goes_on_where_it_was() -> None:
    rows: list[Row] = [(LogKind.REQUEST, 0, 600, 0, -1, -1), (LogKind.REQUEST, 1, 700, 7, -1, -1)]
    first = ProgramRecord([])
    first.add(log_of((0, rows)), [])
    (kind,) = first.kinds()
    role = FIRST_ROLE + 1
    named = KindRecord(
        4, 0, np.array([0, role]), kind.least, kind.most, kind.last, kind.end, kind.short_end,
        kind.was_freed, kind.renewed, {4: np.array([1, 0])}, 3, 9,
    )  # fmt: skip
    record = ProgramRecord([named])
    assert record.version == 1
    record.add(log_of((0, rows)), [])
    (kind,) = record.kinds()
    assert (kind.number, kind.seen, kind.stream.tolist()) == (4, 4, [0, 7])
    # Once it is somebody it is nobody else.
    record.add(log_of((0, [rows[0], (*rows[1][:3], 8, -1, -1)])), [])
    assert [other.seen for other in record.kinds()] == [4, 1]


def test_the_kind_that_was_not_seen_for_longest_is_forgotten() -> None:
    record = ProgramRecord([])
    number = 0
    for requests in range(1, MOST_KINDS + 3):
        rows: list[Row] = []
        for _ in range(requests):
            rows.append((LogKind.REQUEST, number, 600, 0, -1, -1))
            number += 1
        record.add(log_of((0, rows)), [])
    assert [len(kind.stream) for kind in record.kinds()] == list(range(3, MOST_KINDS + 3))
    assert all(number >= 2 for kind in record.kinds() for number in kind.later)


def test_columns_have_an_entry_a_request() -> None:
    one, two = np.ones(1, dtype=np.int64), np.ones(2, dtype=np.int64)
    flag = np.ones(1, dtype=np.uint8)
    kind = KindRecord(3, 0, one, one, two, one, one, one, flag, flag, {}, 1, 0)
    with pytest.raises(ValueError, match="kind 3: every request has an entry in most, found 2 for"):
        ProgramRecord([kind])


def test_a_free_of_a_slot_that_no_kind_has_teaches_nothing() -> None:
    record = ProgramRecord([])
    rows: list[Row] = [(LogKind.REQUEST, 10, 600, 0, -1, -1), (LogKind.FREE, 10, 0, 0, -1, -1)]
    record.add(log_of((0, rows)), [])
    for kind, slot in ((0, 99), (0, -5), (9, 0)):
        record.add(log_of((0, [(LogKind.FREE, 1, 0, 0, kind, slot)])), [0])
    assert record.kinds()[0].later == {}
