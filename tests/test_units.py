"""Bytes as people read them."""

from __future__ import annotations

import pytest

from planners.units import exact_bytes, human_bytes


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
