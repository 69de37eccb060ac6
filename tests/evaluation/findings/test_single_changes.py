"""Tables of what single waits and chains are worth."""

from __future__ import annotations

import pytest

from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record
from tests.evaluation.study.made_up_records import record


def changed(change: str, *found: dict[str, object]) -> Record:
    """Return a run on a graph whose bound is 1,000 bytes and whose plan has 1,100."""
    statistics = {"bound": 1000, "peak": 1100, "greedy": 1300, "candidates": 7, "judged": 4}
    for rank, fields in enumerate(found, 1):
        statistics |= {f"{rank}.{name}": value for name, value in fields.items()}  # type: ignore[misc]
    return record(
        "bert", "single-changes", 1100, parameters={"change": change}, statistics=statistics
    )


def wait(worth: int, peak: int, **fields: object) -> dict[str, object]:
    ends = {"before": "mul 3", "before_stream": 0, "after": "add 9", "after_stream": 2}
    return {**ends, "data": False, "bytes": worth, "peak": peak, **fields}


def cells(name: str, *records: Record) -> list[list[str]]:
    table = known_slots()[name](PageMaterial("streams", records))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]


def test_a_wait_less_raises_the_bound() -> None:
    record = changed("less", wait(500, 1500, data=True), wait(200, 1260))
    found = cells("waits-less", record, changed("more", wait(1, 1)))
    ends = ["bert", "add 9 on 2", "mul 3 on 0"]
    assert found[2:] == [
        [*ends, "data", "500", "50.000 %", "1,100", "1,500", "0 %"],
        [*ends, "control", "200", "20.000 %", "1,100", "1,260", "5.000 %"],
    ]


def test_a_wait_more_lowers_it() -> None:
    found = cells("waits-more", changed("more", wait(200, 880)))
    ends = ["bert", "add 9 on 2", "mul 3 on 0"]
    assert found[2:] == [[*ends, "200", "20.000 %", "1,100", "880", "10.000 %"]]


def test_a_chain_less_stands_beside_every_plan() -> None:
    chain = {"chain": 4, "members": 3, "chain_bytes": 6000, "greedy": 1250, "bound": 1000,
             "peak": 1111}  # fmt: skip
    found = cells("chains-less", changed("chain", chain))
    assert found[2:] == [["bert", "4", "3", "6,000", "0", "50", "-11", "10.000 %"]]


def test_ten_ranks_keep_their_order() -> None:
    record = changed("more", *(wait(100 - rank, 990) for rank in range(11)))
    assert [row[3] for row in cells("waits-more", record)[2:]] == [str(100 - r) for r in range(11)]


def test_what_was_judged_is_counted() -> None:
    found = cells("single-change-counts", changed("less"))
    assert found[2:] == [["bert", "less", "7", "4", "10", "1,000", "1,100"]]


@pytest.mark.parametrize(
    "name", ["waits-less", "waits-more", "chains-less", "single-change-counts"]
)
def test_nothing_found_shows_nothing(name: str) -> None:
    assert cells(name, record("bert", "auto")) == []
