"""Tables of a page: rows, columns, totals, the cost of a run, and figures of a committed page."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.pages.page_material import PageMaterial
from evaluation.pages.record_rows import rows_of_page
from evaluation.pages.slots import fill
from evaluation.study.record import Record
from evaluation.study.study_file import find_study
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record

RECORDS = [
    record("i:seed=1", "auto", 12, seed=1),
    record("i:seed=2", "auto", 14, parameters={"fast": True}),
    record("i:seed=1", "naive", 20),
    record("j", "naive", None),
]
ONE = {"by": ["planner"]}
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
    assert lines_of({**ONE, "sql": "FROM runs WHERE instance = 'j'"})[1:] == ["| naive | - |"]
    assert lines_of({"sql": "FROM runs WHERE instance = 'nothing'"}) == [""]


def test_columns_may_stand_for_each_value_and_be_left_out() -> None:
    columns = [
        ["", "{instance}"],
        {"across": "planner", "columns": [
            {"heading": "{planner}", "cell": "{max(peak)}", "bold": "max(peak) < 13",
             "total": "{sum(peak)}"},
        ]},
        {"heading": "never", "cell": "{max(statistics.never)}", "optional": True},
    ]  # fmt: skip
    assert lines_of({"by": ["instance"], "columns": columns}) == [
        "| | auto | naive |", "| i:seed=1 | **12** | 20 |", "| i:seed=2 | 14 | - |",
        "| j | - | - |", "| | 26 | 20 |",
    ]  # fmt: skip


def test_rows_are_sorted_and_the_first_ones_are_best() -> None:
    found = lines_of({"by": ["planner"], "sort": ["-max(peak)"], "best": True})
    assert found[1:] == ["| **naive** | 20 |", "| auto | 14 |"]


def test_sections_have_titles() -> None:
    found = lines_of({"sections": "planner", "title": "### {planner}", "by": ["instance"],
                      "sql": "FROM runs WHERE peak IS NOT NULL"})  # fmt: skip
    assert [line for line in found if line.startswith("#")] == ["### auto", "### naive"]


def test_frames_build_on_each_other() -> None:
    frames = {
        "least": {
            "sql": "SELECT planner, min(peak) AS least, min(n) AS n FROM runs GROUP BY planner"
        },
        "names": {"columns": ["planner", "name"], "rows": [["auto", "Ours"]]},
    }
    columns = [["", "{name}"], ["least", "{least}"]]
    joined = "SELECT least.*, names.name FROM least LEFT JOIN names USING (planner)"
    table = {"sql": joined, "columns": columns}
    assert lines_of(table, frames=frames)[1:] == ["| Ours | 12 |", "| - | 20 |"]


def test_a_table_may_be_turned() -> None:
    assert lines_of({"by": ["planner"], "turned": True}) == [
        "| planner | auto | naive |", "| peak | 14 | 20 |",
    ]  # fmt: skip


def test_refuses_rows_that_break_a_requirement() -> None:
    with pytest.raises(GaplessError, match="auto is too high"):
        lines_of({"by": ["planner"], "require": [["max(peak) > 15", "{planner} is too high"]]})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"sq": "1"}, r"field 'sq': unknown; .*sql"),
        ({"sql": 3}, r"field sql: a text is needed, found 3"),
        ({"sql": "FROM run"}, r".*Table with name run does not exist! Did you mean \"runs"),
        ({"sql": "FROM runs WHERE"}, r"Parser Error: syntax error"),
        ({"sql": "SELECT peak + planner AS x, n FROM runs"}, r"Binder Error: .*\+"),
        ({"sql": "SELECT 'a'::BIGINT AS x, n FROM runs"}, r"Conversion Error: .*'a'"),
        ({"sql": "SELECT 1 AS x"}, r"Binder Error: .*\"n\""),
        ({"by": "planner"}, r"field by: a list is needed"),
        ({"by": ["plannr"]}, r"Binder Error: .*\"plannr\" not found .*\"planner\""),
        ({"sections": "plannr"}, r"Binder Error: .*\"plannr\" not found"),
        ({"columns": [["a"]]}, r"field columns\[0\]: an object, or a table"),
        ({"columns": [{"cel": "x"}]}, r"columns 1, field 'cel': unknown; .*cell"),
        ({"columns": [["a", "{pek}"]]}, r"Binder Error: .*\"pek\" not found .*\"peak\""),
        ({"columns": [["a", "{medain(peak)}"]]}, r"Catalog Error: .*medain.* \"median\""),
        ({**ONE, "columns": [["a", "{peak}"]]}, r'Binder Error: column "peak" must appear in'),
        ({"columns": [["a", "{peak:q}"]]}, r"'q' is no format"),
        ({"columns": [{"across": "plannr", "columns": []}]}, r"Binder Error: .*\"plannr\""),
        ({"columns": [["a", "{planner:human}"]]}, r"'human' is no format of 'auto'"),
        ({"columns": "other"}, r"field columns: a list is needed"),
        ({"require": [["1"]]}, r"field require"),
        # A study's file is data: it reads no other file, and changes no setting.
        ({"sql": "FROM read_text('/etc/hostname')"}, r"Permission Error: .*disabled"),
        ({"sql": "FROM runs); ATTACH 'a.db' AS a; FROM (FROM runs"}, r"Permission Error: .*a\.db"),
        ({"columns": [["a", "{n:>99999999999}"]]}, r"'>99999999999' is no format"),
    ],
)
def test_each_fault_is_named_with_its_field(table: dict[str, Any], says: str) -> None:
    with pytest.raises(GaplessError, match=rf"page\.tables\.made-up: {says}"):
        lines_of(table)


def test_a_frame_needs_frames_above_it() -> None:
    frames = {"a": {"sql": "FROM b"}, "b": {"sql": "FROM a"}}
    with pytest.raises(GaplessError, match=r"page\.frames\.a: Catalog Error: .*name b does not"):
        lines_of({"sql": "FROM a"}, frames=frames)


@pytest.mark.parametrize("field", ["it's", '"', "", "a b", "B", "x') FROM runs --"])
def test_names_of_fields_are_foreign_text(field: str) -> None:
    records = [record("i", "auto", statistics={field: 3, "c": 1, "b": 2})]
    columns = [{"names": "statistics.*", "columns": [["@", "x"]]}]
    words = {"tables": {"made-up": {"columns": columns}}}
    assert "x" in fill("{made-up}", PageMaterial("made-up", records, words), "made-up.md")


def at(instance: str, second: int, wall_seconds: float = 0.25) -> Record:
    moment = f"2026-01-02T03:04:{second:02}+00:00"
    return record(instance, "naive", moment=moment, wall_seconds=wall_seconds)


def table(*records: Record) -> list[list[str]]:
    text = fill("{overhead-table}", PageMaterial("overhead", records), "x")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def test_time_between_two_runs_is_the_planners_and_the_rest() -> None:
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
    rows = rows_of_page("programs.md", "Other allocators")
    assert all(isinstance(row["to faster"], float) for row in rows)
    for allocator in ("gmlake", "vpmm", "stweaver"):
        cases = find_study(f"paper-{allocator}").page["evidence"]["programs"]["cases"]
        its = [row for row in rows if row["allocator"] == allocator]
        assert {f"{row['program']} on a GPU" for row in its} == set(cases)
    assert rows_of_page("device-calls.md", "Milliseconds for 2,048 MiB")[0]["first_bold"] > 0


def test_a_missing_page_or_heading_is_named() -> None:
    with pytest.raises(GaplessError, match="did you mean 'Other allocators'"):
        rows_of_page("programs.md", "Online allocator")
    with pytest.raises(GaplessError, match="the page is needed"):
        rows_of_page("program.md", "Other allocators")
