"""Shares and times as they stand in the tables of a page."""

from __future__ import annotations

from planners.text.byte_units import three_digits

# Stands in a cell whose value is unknown.
NOTHING = "-"

# A smaller share would print as 0.
SMALLEST_SHARE = 5e-7


def percent(share: float) -> str:
    """Return a share as a percentage with three decimals, or without any if it is 0 or 1."""
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    return f"{share:.3%}".replace("%", " %")


def percent_above(share: float) -> str:
    """Return a share as a percentage with four decimals, or without any if it is 0."""
    if share == 0:
        return "0 %"
    if abs(share) < SMALLEST_SHARE:
        return "<0.0001 %"
    return f"{share:.4%}".replace("%", " %")


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds with three significant digits."""
    return three_digits(seconds * 1e3)


def seconds(value: float) -> str:
    """Return seconds to the millisecond, and from ten on with three significant digits."""
    return f"{value:.3f}" if value < 10 else three_digits(value)


def seconds_text(value: float) -> str:
    """Return a time with three digits, in seconds, milliseconds or microseconds by its size."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if value >= 0.9995 * scale:
            return f"{three_digits(value / scale)} {unit}"
    return f"{three_digits(value / 1e-6)} µs"


def count_text(count: float) -> str:
    """Return a count in few characters, such as 500, 20k or 10M."""
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if count >= scale:
            return f"{count / scale:g}{unit}"
    return f"{count:g}"
