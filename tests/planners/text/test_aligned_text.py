"""Columns are as wide as their widest cell, and no line ends in spaces."""

from __future__ import annotations

from planners.text.aligned_text import aligned_text


def test_columns_are_aligned_to_either_side() -> None:
    rows = [("name", "bytes", "note"), ("a", "1,000", ""), ("longer", "7", "x")]
    assert aligned_text(rows, (0, 2)) == (
        "name    bytes  note\n"
        "a       1,000\n"
        "longer      7  x\n"
    )  # fmt: skip
