"""Tables of a page: rows, columns, totals, the cost of a run, and figures of a committed page."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.report.slots import PageMaterial, fill, known_slots
from evaluation.study.record import Record
from evaluation.study.study_file import find_study
from evaluation.tables.record_frame import frame_of_page
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record

RECORDS = [
    record("i:seed=1", "auto", 12, seed=1),
    record("i:seed=2", "auto", 14, parameters={"fast": True}),
    record("i:seed=1", "naive", 20),
    record("j", "naive", None),
]
COLUMNS = [["planner", "{planner}"], ["peak", "{max(peak):,}"]]


def lines_of(table: dict[str, Any], **page: Any) -> list[str]:
    words = {"tables": {"made-up": {"columns": COLUMNS, **table}}, **page}
    text = fill("{made-up}", PageMaterial("made-up", RECORDS, words), "made-up.md")
    return [" ".join(line.split()) for line in text.splitlines() if not line.startswith("|-")]


def test_a_group_is_a_row_with_the_unknown_as_a_dash() -> None:
    assert lines_of({"by": ["planner"]}) == [
        "| planner | peak |",
        "| auto | 14 |",
        "| naive | 20 |",
    ]
    assert lines_of({"where": "instance == 'j'"})[1:] == ["| naive | - |"]
    assert lines_of({"where": "instance == 'nothing'"}) == [""]


def test_columns_may_stand_for_each_value_and_be_left_out() -> None:
    columns = [
        ["", "{instance}"],
        {"across": "planner", "columns": [
            {"heading": "{planner}", "cell": "{peak}", "bold": "peak < 13", "total": "{sum(peak)}"}
        ]},
        {"heading": "never", "cell": "{statistics.never}", "optional": True},
    ]  # fmt: skip
    assert lines_of({"by": ["instance"], "columns": columns}) == [
        "| | auto | naive |", "| i:seed=1 | **12** | 20 |", "| i:seed=2 | 14 | - |",
        "| j | - | - |", "| | 26 | 20 |",
    ]  # fmt: skip


def test_rows_are_sorted_and_the_first_ones_are_best() -> None:
    found = lines_of({"by": ["planner"], "sort": ["-max(peak)"], "best": True})
    assert found[1:] == ["| **naive** | 20 |", "| auto | 14 |"]


def test_sections_have_titles_and_lines_words_of_their_own() -> None:
    found = lines_of({"sections": "planner", "title": "### {planner}", "by": ["instance"],
                      "where": "known(peak)"})  # fmt: skip
    assert [line for line in found if line.startswith("#")] == ["### auto", "### naive"]
    lines = [{"says": "low", "where": "peak < 13", "value": "peak * 2"}, {"says": "all"}]
    columns = [["", "{says}"], ["n", "{count(status)}"]]
    assert lines_of({"lines": lines, "columns": columns})[1:] == ["| low | 1 |", "| all | 4 |"]


def test_frames_build_on_each_other() -> None:
    frames = {
        "least": {"by": ["planner"], "values": {"least": "min(peak)"}},
        "names": {"columns": ["planner", "name"], "rows": [["auto", "Ours"]]},
    }
    columns = [["", "{name}"], ["least", "{least}"]]
    table = {"over": "least", "join": {"names": "planner"}, "columns": columns}
    assert lines_of(table, frames=frames)[1:] == ["| Ours | 12 |", "| - | 20 |"]


def test_a_table_may_be_turned() -> None:
    assert lines_of({"by": ["planner"], "turned": True}) == [
        "| planner | auto | naive |", "| peak | 14 | 20 |",
    ]  # fmt: skip


def test_what_a_table_requires_has_to_be_so() -> None:
    with pytest.raises(GaplessError, match="auto is too high"):
        lines_of({"by": ["planner"], "require": [["max(peak) > 15", "{planner} is too high"]]})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"wher": "1"}, r"field 'wher': unknown; .*where"),
        ({"where": 3}, r"field where: a formula is needed, found 3"),
        ({"over": "run"}, r"field over: no frame is called 'run'; .*runs"),
        ({"by": "planner"}, r"field by: a list is needed"),
        (
            {"by": ["plannr"]},
            r"field by: no column is called 'plannr'.*planner",
        ),
        (
            {"sections": "plannr"},
            r"field sections: no column is called 'plannr'",
        ),
        ({"columns": [["a"]]}, r"field columns\[0\]: an object, or a table"),
        (
            {"columns": [{"cel": "x"}]},
            r"columns 1, field 'cel': unknown; .*cell",
        ),
        (
            {"columns": [["a", "{pek}"]]},
            r"'pek': no column is .*peak",
        ),
        (
            {"columns": [["a", "{peak:q}"]]},
            r"'q' is no format",
        ),
        (
            {"columns": [{"across": "plannr", "columns": []}]},
            r"field across: .*'plannr'.*planner",
        ),
        ({"columns": [["a", "{planner:human}"]]}, r"'human' is no format of 'auto'"),
        ({"columns": [["a", "{[1, 2]}"]]}, r".*: one value is needed, found \[1, 2\]"),
        ({"columns": "other"}, r"field columns: a list is needed"),
        (
            {"join": {"names": "x"}},
            r"field join: no frame is called 'names'",
        ),
        ({"require": [["1"]]}, r"field require"),
        ({"lines": [1]}, r"field lines\[0\]: an object, or a table"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(table: dict[str, Any], says: str) -> None:
    with pytest.raises(GaplessError, match=rf"page\.tables\.made-up: {says}"):
        lines_of(table)


def test_frames_that_need_each_other_are_refused() -> None:
    frames = {"a": {"over": "b"}, "b": {"over": "a"}}
    with pytest.raises(GaplessError, match=r"page\.frames\.b: field over: 'a' is made from 'b'"):
        lines_of({"over": "a"}, frames=frames)


def at(instance: str, second: int, wall_seconds: float = 0.25) -> Record:
    moment = f"2026-01-02T03:04:{second:02}+00:00"
    return record(instance, "naive", moment=moment, wall_seconds=wall_seconds)


def table(*records: Record) -> list[list[str]]:
    text = known_slots()["overhead-table"](PageMaterial("overhead", records))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def test_what_passes_between_two_runs_is_the_planner_and_the_rest() -> None:
    # Five runs, four times a second from one to the next; the planner has a quarter of it.
    rows = table(*(at("a", second) for second in (2, 1, 3, 4, 5)), at("b", 6), at("b", 9, 1.0))
    assert [row[:7] for row in rows] == [
        ["a", "5", "5", "250", "750", "±250", "208.3"],
        ["b", "5", "2", "625", "2,375", "±1,000", "659.7"],
    ]
    line = len(at("a", 1).to_json()) + 1
    assert rows[0][7] == f"{line:,}"
    assert int(rows[0][8]) < line / 2


def test_one_run_alone_tells_nothing() -> None:
    assert table(at("a", 1)) == []


def test_numbers_of_a_page_are_numbers() -> None:
    frame = frame_of_page("programs.md", "Online allocators")
    assert set(frame["allocator"]) == {"gmlake", "vpmm"}
    assert frame["to faster"].dtype == float
    for study in ("paper-gmlake", "paper-vpmm"):
        cases = find_study(study).page["evidence"]["programs"]["cases"]
        assert set(frame["program"]) == set(cases)
    assert frame_of_page("device-calls.md", "Milliseconds for 2,048 MiB")["first_bold"].iloc[0] > 0


def test_a_missing_page_or_heading_is_named() -> None:
    with pytest.raises(GaplessError, match="did you mean 'Online allocators'"):
        frame_of_page("programs.md", "Online allocator")
    with pytest.raises(GaplessError, match="the page is needed"):
        frame_of_page("program.md", "Online allocators")
