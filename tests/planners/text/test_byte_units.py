"""Bytes as people read them."""

from __future__ import annotations

import pytest

from planners.errors import GaplessError
from planners.text.byte_units import (
    both_bytes,
    exact_bytes,
    human_bytes,
    parse_bytes,
    three_digits,
)


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
    assert both_bytes(4_086_158_532) == "3.806 GiB (4,086,158,532)"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4100000000", 4_100_000_000),
        ("24GiB", 24 << 30),
        ("24gib", 24 << 30),
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
    ["", "GiB", "24G", "24 giga", "-1", "+1", "nan", "inf", "1e", "1e-3", "0x10", "1,00", "1,0000",
     "1.5.", "1 2", "\u0661", "1e999", "9" * 41, "1GiB/s"],
)  # fmt: skip
def test_what_is_no_number_of_bytes_says_what_is(text: str) -> None:
    with pytest.raises(GaplessError, match=r"^--capacity: bytes are needed, such as 24GiB, ") as e:
        parse_bytes("--capacity", text)
    assert "\n" not in str(e.value)


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
