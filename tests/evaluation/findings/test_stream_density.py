"""Tables of unsafe pairs by the length and the number of streams."""

from __future__ import annotations

import pytest

from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record
from planners import GaplessError
from tests.evaluation.study.made_up_records import record

MIB = 1 << 20


def counted(instance: str, pairs: int) -> Record:
    """Return what was counted on a graph of five tensors, hence of ten pairs."""
    counts = {"streams": 2, "unsafe_pairs": pairs, "open_streams": 1, "following_streams": 3}
    bounds = {"lifetime": 8 * MIB, "antichain": 10 * MIB}
    return record(
        instance, "stream-counts", 90 * MIB, statistics=counts, bounds=bounds,
        lower_bound=10 * MIB,
    )  # fmt: skip


def planned(instance: str, peak: int) -> Record:
    return record(instance, "auto", peak * MIB, lower_bound=10 * MIB, bounds={"lifetime": 8 * MIB})


def cells(name: str, *records: Record) -> list[list[str]]:
    table = known_slots()[name](PageMaterial("streams", records))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]


def test_a_length_of_streams_is_a_line_the_shortest_first() -> None:
    found = cells(
        "stream-lengths",
        counted("bert:nodes_per_stream=1000", 4),
        planned("bert:nodes_per_stream=1000", 12),
        counted("bert:nodes_per_stream=100", 3),
        counted("bert:nodes_per_stream=100:streams=succession", 1),
    )
    assert found[0][0] == "bert: nodes a stream"
    assert found[2:] == [
        ["100", "2", "1 of 3", "3", "30.0%", "8.0", "10.0", "25.000 %", "-", "-", "-", "-"],
        [
            "1,000",
            "2",
            "1 of 3",
            "4",
            "40.0%",
            "8.0",
            "10.0",
            "25.000 %",
            "-",
            "-",
            "12.0",
            "20.000 %",
        ],
    ]


def test_each_model_has_a_table() -> None:
    records = [counted(f"{model}:nodes_per_stream=7", 3) for model in ("bert", "resnet-50")]
    found = cells("stream-lengths", *records)
    assert [row[0] for row in found if row and row[0].endswith("nodes a stream")] == [
        "bert: nodes a stream",
        "resnet-50: nodes a stream",
    ]


def in_succession(*pairs: int) -> list[Record]:
    return [
        counted(f"bert:nodes_per_stream={length}:streams=succession", count)
        for length, count in enumerate(pairs, 100)
    ]


def test_in_succession_a_model_is_one_line() -> None:
    found = cells("streams-in-succession", *in_succession(3, 3, 3))
    assert found[2:] == [["bert", "5", "3, from 100 to 102", "3", "30.0%"]]


def test_in_succession_two_numbers_make_no_page() -> None:
    with pytest.raises(GaplessError, match=r"bert: in succession one number .* found 3, 4"):
        cells("streams-in-succession", *in_succession(3, 4))


def test_a_drawn_graph_is_a_line() -> None:
    name = "training-graph:tensors=5:streams=2:seed=1"
    found = cells("stream-numbers", counted(name, 5), planned(name, 10))
    assert found[2:] == [
        ["2", "1", "5", "5", "50.0%", "8.0", "10.0", "25.000 %", "-", "-", "10.0", "0 %"]
    ]


def test_nothing_counted_shows_nothing() -> None:
    for name in ("stream-lengths", "streams-in-succession", "stream-numbers"):
        assert cells(name, planned("bert", 10)) == []
