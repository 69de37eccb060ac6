"""A table is aligned wherever it is shown, and a narrow terminal breaks no number."""

from __future__ import annotations

import io
import re
from html import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from planners.text.plain_text import Markdown, printable
from planners.text.table import Column, Row, Table, aligned_pairs, columns_of

COLUMNS = (
    Column("name", is_left=True, wraps=True), Column("tensors"), Column("gap to\nbound"),
    Column("origin", is_left=True, cut_to=6),
)  # fmt: skip
TABLE = Table(
    COLUMNS,
    [Row.best(("alexander", "1,000", "0 %", "")), Row(("b", "7", "1.5 %", "drawn by hand"), "~")],
    is_marked=True,
    first_left_out=("tensors",),
)


def in_a_terminal(table: Table, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as capture:
        console.print(table.rich(width))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_columns_are_aligned_and_no_line_ends_in_spaces() -> None:
    assert TABLE.plain() == (
        "   name       tensors  gap to bound  origin\n"
        "*  alexander    1,000           0 %\n"
        "~  b                7         1.5 %  drawn by hand\n"
    )


def test_rows_that_are_too_many_are_counted() -> None:
    table = Table(columns_of("name", "bytes"), [Row((name, "1")) for name in "abc"])
    assert table.plain("  ", 1) == "  name  bytes\n  a         1\n  ... and 2 more\n"
    assert table.plain(most=3).count("\n") == 4
    assert Table(columns_of("name", "bytes"), []).plain() == "name  bytes\n"


def test_a_page_shows_the_best_in_bold() -> None:
    assert TABLE.markdown() == (
        "| name          | tensors | gap to bound | origin        |\n"
        "|---------------|--------:|-------------:|---------------|\n"
        "| **alexander** |   1,000 |          0 % |               |\n"
        "| b             |       7 |        1.5 % | drawn by hand |"
    )


@given(st.text("ab1_*`<>[]()|\\&;!~#:/= \"'-.\x1b\n", max_size=30))
@example("<img src=x onerror=alert(1)>|`x` [a](javascript:alert(2))")
@example("_a_ __a__ &lt; &#60; <!-- -->")
def test_a_page_shows_foreign_text_as_it_is(text: str) -> None:
    table = Table(columns_of("a", text), [Row((text, "1")), Row.best(("2", text))])
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(table.markdown())
    cells = re.findall(r"<t[dh][^>]*>(.*)</t[dh]>", page)
    told = escape(" ".join(printable(text).split())).replace("&#x27;", "'")
    assert cells == ["a", told, told, "1", "<strong>2</strong>", told]


def test_only_our_own_markdown_is_markup() -> None:
    table = Table(columns_of("a", "b"), [Row((Markdown("**x**"), "**x**"))])
    assert table.markdown().endswith("| **x** | \\*\\*x\\*\\* |")


def test_no_control_character_of_a_heading_is_shown() -> None:
    table = Table(columns_of("a", "b\n\x1b[2Jc"), [])
    assert table.plain() == "a  b \\x1b[2Jc\n"


def test_a_wide_terminal_shows_everything() -> None:
    assert in_a_terminal(TABLE, 46) == [
        "                       gap to",
        "   name       tensors   bound  origin",
        "─" * 44,
        "*  alexander    1,000     0 %",
        "~  b                7   1.5 %  drawn by hand",
    ]


def test_a_narrower_terminal_cuts_then_leaves_out_then_wraps() -> None:
    assert in_a_terminal(TABLE, 40)[-1] == "~  b                7   1.5 %  drawn by…"
    assert in_a_terminal(TABLE, 36)[-1] == "~  b           1.5 %  drawn by hand"
    assert in_a_terminal(TABLE, 28)[-1] == "~  b           1.5 %  drawn…"
    assert in_a_terminal(TABLE, 27)[-1] == "~ b          1.5 % drawn b…"
    assert in_a_terminal(TABLE, 24)[-3:] == [
        "  alexande",
        "* r           0 %",
        "~ b         1.5 % drawn…",
    ]


def test_columns_that_are_cut_share_what_room_there_is() -> None:
    columns = [Column("a", is_left=True, cut_to=2), Column("b", is_left=True, cut_to=2)]
    table = Table(columns, [Row(("first", "second"))])
    assert in_a_terminal(table, 9)[-1] == "first  s…"
    assert in_a_terminal(table, 8)[-1] == "fir…  s…"


def test_a_column_of_marks_has_its_place_where_there_are_none() -> None:
    table = Table(COLUMNS[1:3], [Row(("1,000", "99.123 %"))], is_marked=True)
    assert in_a_terminal(table, 20)[-1] == "     1,000  99.123 %"
    assert in_a_terminal(table, 19)[-1] == "    1,000 99.123 %"


@pytest.mark.parametrize("width", range(24, 60))
def test_a_terminal_is_never_too_narrow_for_the_table(width: int) -> None:
    assert max(map(len, in_a_terminal(TABLE, width))) <= width


def test_the_best_row_is_green_and_square_brackets_are_only_text() -> None:
    console = Console(width=60, file=io.StringIO(), force_terminal=True)
    with console.capture() as capture:
        console.print(Table(COLUMNS[:1], [Row.best(["[red]a"]), Row(["b"])]).rich(60))
    lines = capture.get().splitlines()
    assert re.search(r"\x1b\[1;32m\[red\]a", lines[-2])
    assert "\x1b" not in lines[-1]


def test_rows_become_columns_where_a_terminal_is_too_narrow() -> None:
    table = Table(COLUMNS, TABLE.rows, is_marked=True, turns=True)
    assert in_a_terminal(table, 44)[1].split()[0] == "name"
    assert in_a_terminal(table, 43) == [
        "              * alexander            ~ b",
        "────────────────────────────────────────",
        "tensors             1,000              7",
        "gap to bound          0 %          1.5 %",
        "origin                     drawn by hand",
    ]


def test_pairs_stand_below_each_other() -> None:
    assert aligned_pairs([("a", "one"), ("longer", "")], "  ") == "  a       one\n  longer\n"
    assert aligned_pairs([]) == ""
