"""Text for people: bytes as they read them, one line that prints, cells that are no formula."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from instances.formats.minimalloc_csv import read_minimalloc_csv, write_minimalloc_csv
from planners import Problem, write_problem
from planners.compare.__main__ import app as compare
from planners.errors import GaplessError
from planners.text.byte_units import (
    both_bytes,
    exact_bytes,
    given_bytes,
    human_bytes,
    parse_bytes,
    three_digits,
)
from planners.text.plain_text import csv_cell, describe_error, one_line


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1023, "0.999 KiB"),
        (1000, "0.977 KiB"),
        (1024, "1.000 KiB"),
        (9 * 1024, "9.000 KiB"),
        (10 * 1024 - 1, "9.999 KiB"),
        (10 * 1024**2 - 1, "10.00 MiB"),
        (99 * 1024 + 512, "99.50 KiB"),
        (999 * 1024, "999.0 KiB"),
        (1023 * 1024, "0.999 MiB"),
        (4_086_158_532, "3.806 GiB"),
        (2**63 - 1, "8.000 EiB"),
    ],
)
def test_human_bytes(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_exact_bytes() -> None:
    assert exact_bytes(4_086_158_532) == "4,086,158,532"
    assert both_bytes(4_086_158_532) == given_bytes(4_086_158_532) == "3.806 GiB (4,086,158,532)"
    assert [given_bytes(size) for size in (0, 24, 1023, 1024)] == [
        "0 B (0)", "24 bytes (24 GiB is written 24GiB)",
        "1023 bytes (1023 GiB is written 1023GiB)", "1.000 KiB (1,024)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4100000000", 4_100_000_000),
        ("24GiB", 24 << 30),
        ("24gib", 24 << 30),
        ("24Gi", 24 << 30),
        ("512 ki", 512 << 10),
        (" 1.5 GiB ", 3 << 29),
        ("1MB", 1_000_000),
        ("1 kB", 1000),
        ("5B", 5),
        ("1e9", 10**9),
        ("1.5E+3", 1500),
        ("1e3 KiB", 1_024_000),
        ("1EB", 10**18),
        ("7EiB", 7 << 60),
        # As tables print sizes, and as Python writes them.
        ("4,086,158,532", 4_086_158_532),
        ("4_100_000_000", 4_100_000_000),
        (str(2**63 - 1), 2**63 - 1),
        # The part of a byte is none that a plan could use.
        ("0.1GiB", 107_374_182),
    ],
)
def test_parse_bytes(text: str, size: int) -> None:
    assert parse_bytes("--capacity", text) == size


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "24 giga", "-1", "+1", "nan", "inf", "1e+", "1e-3", "0x10", "1,00", "1,0000",
     "1.5.", "1 2", "\u0661", "1e999", "9" * 41, "1GiB/s"],
)  # fmt: skip
def test_a_text_that_is_not_a_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(GaplessError, match=r"^--capacity: bytes are needed, such as 24GiB, ") as e:
        parse_bytes("--capacity", text)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("24G", "24GiB (25,769,803,776) or 24GB (24,000,000,000)"),
        ("1.5 m", "1.5MiB (1,572,864) or 1.5MB (1,500,000)"),
        ("2,048K", "2,048KiB (2,097,152) or 2,048kB (2,048,000)"),
    ],
)
def test_a_letter_alone_may_mean_two_units(text: str, meant: str) -> None:
    with pytest.raises(GaplessError) as raised:
        parse_bytes("--memory", text)
    assert str(raised.value).startswith(f"--memory: bytes are needed, such as {meant} (units: ")
    assert str(raised.value).endswith(f", found {text!r}")


@pytest.mark.parametrize("text", ["1.5", "1.5B", "8EiB", "9223372036854775808", "1e99", "9e99EiB"])
def test_bytes_are_whole_and_fit(text: str) -> None:
    with pytest.raises(GaplessError, match="whole bytes from 0 to 2\\*\\*63 - 1 are needed, found"):
        parse_bytes("--capacity", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0000126, "0.0000126"), (0.0123456, "0.0123"), (9.9, "9.9"), (29.54, "29.5"),
     (99.96, "100"), (128.4, "128"), (1174.4, "1,174"), (4239.6, "4,240")],
)  # fmt: skip
def test_three_digits_are_never_a_power(value: float, text: str) -> None:
    assert three_digits(value) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("plain, with ünïcode and 名前", "plain, with ünïcode and 名前"),
        ("two\nlines\r\n\tand  a\x0btab\u2028line\u2029", "two lines and a tab line"),
        ("\x1b[31mred\x1b[0m \x1b[2Jand \x9b1mbold", "red and bold"),
        ("\x1b]0;a new title\x07here \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "here link"),
        ("\x1b(0 and \x1bc and \x1b", "and and"),
        ("\u202egnp.exe\u202c \u2066isolated\u2069 \u200bwide", "gnp.exe isolated wide"),
        ("null \x00 bell \x07 back \x08 delete \x7f", "null bell back delete"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("", ""),
    ],
)
def test_one_line(text: str, plain: str) -> None:
    assert one_line(text) == plain


def test_every_character_gives_text_that_prints() -> None:
    for code in (*range(0x3001), *range(0xD800, 0xF900, 64), *range(0xFE00, sys.maxunicode, 999)):
        assert one_line(f"a{chr(code)}b").isprintable()
    assert one_line("a\x1b[31;" * 1000).isprintable()


def test_a_long_line_is_cut() -> None:
    assert one_line("x" * 1000) == "x" * 1000
    assert one_line("x" * 1001) == "x" * 997 + "..."
    assert one_line("xy" * 10, most=10) == "xyxyxyx..."
    assert len(one_line("\x1b[31m" * 10**6)) == 3  # nothing that prints, and cut


def test_an_error_is_described_by_its_class_and_text() -> None:
    assert describe_error(ValueError("a\nb")) == "ValueError: a b"
    assert describe_error(GeneratorExit()) == "GeneratorExit"


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+A1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", " =1", "-2+3", "--", "="],
)
def test_a_formula_is_text(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "-5", "+5", "-0.25", "1e3", "a=b", "a-b", "bert"])
def test_a_cell_that_is_not_a_formula_stays(text: str) -> None:
    assert csv_cell(text) == text


def test_no_cell_that_we_write_is_a_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["=A1", "+b", "@c", "-5", "d"]
    problem = Problem([1] * 5, [0] * 5, [1] * 5, tensor_name=names, name="=cmd")
    write_problem(problem, tmp_path / "=x.json")
    answer = CliRunner().invoke(compare, ["=x.json", "--planners", "naive", "--csv"])
    (row,) = csv.DictReader(answer.stdout.splitlines())
    assert row["instance"] == "'=cmd"
    assert not any(cell.startswith(("=", "+", "@")) for cell in row.values())
    assert row["peak"] == "5"
    write_minimalloc_csv(problem, tmp_path / "x.csv")
    read = read_minimalloc_csv(tmp_path / "x.csv")
    assert list(read.tensor_name or ()) == ["'=A1", "'+b", "'@c", "-5", "d"]
