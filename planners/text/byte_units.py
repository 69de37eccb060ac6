"""Bytes and counts as people read and write them."""

from __future__ import annotations

import re
from fractions import Fraction

from planners.errors import GaplessError
from planners.text.plain_text import shown

BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
DECIMAL_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")

# An int64 holds no more.
MOST_BYTES = (1 << 63) - 1

_BYTES_OF_UNIT = {
    unit.lower(): base**power
    for base, units in ((1024, BINARY_UNITS), (1000, DECIMAL_UNITS))
    for power, name in enumerate(units)
    # 24Gi is 24GiB, and 24G may mean either unit.
    for unit in {name, name.replace("iB", "i")}
}
# Digits in groups of three, as `exact_bytes` prints them, or in one group; few enough for exact
# arithmetic.
_WRITTEN = re.compile(
    r"(?P<number>(?:\d{1,3}(?:[,_]\d{3}){1,6}|\d{1,40})(?:\.\d{1,40})?(?:[eE]\+?\d{1,2})?)"
    r" *(?P<unit>[a-zA-Z]*)",
    re.ASCII,
)


def binary_unit(size: float) -> tuple[int, str]:
    """Return the binary unit in which bytes have at most three digits before the point."""
    power = 0
    # From 999.5 on, three digits no longer hold the number.
    while size / 1024**power >= 999.5 and power + 1 < len(BINARY_UNITS):
        power += 1
    return 1024**power, BINARY_UNITS[power]


def human_bytes(size: int) -> str:
    """Return bytes with a binary unit and three or four digits."""
    scale, unit = binary_unit(size)
    if scale == 1:
        return f"{size} B"
    value = size / scale
    digits = 3 if value < 9.9995 else 2 if value < 99.995 else 1
    return f"{value:.{digits}f} {unit}"


def parse_bytes(where: str, text: str) -> int:
    """Return the number of bytes that a user wrote."""
    written = _WRITTEN.fullmatch(text.strip())
    number, unit = (written["number"], written["unit"].lower()) if written else ("", "")
    scale = _BYTES_OF_UNIT.get(unit or "b") if written else None
    if scale is None:
        meant = [
            f"{number}{name} ({exact_bytes(parse_bytes(where, f'{number}{name}'))})"
            for name in (*BINARY_UNITS, *DECIMAL_UNITS)
            if written and name.lower() in (f"{unit}ib", f"{unit}b")
        ]
        raise GaplessError(
            f"{where}: bytes are needed, such as "
            f"{' or '.join(meant) or '24GiB, 1.5 GB, 1e9 or 4,086,158,532'} (units: "
            f"{' '.join(DECIMAL_UNITS)} by 1000, {' '.join(BINARY_UNITS[1:])} by 1024), found "
            f"{shown(text)}"
        )
    size = Fraction(re.sub("[,_]", "", number)) * scale
    if size > MOST_BYTES or (scale == 1 and size.denominator != 1):
        raise GaplessError(
            f"{where}: whole bytes from 0 to 2**63 - 1 are needed, found {shown(text)}"
        )
    return int(size)


def counted(number: int, noun: str) -> str:
    """Return a number of things, such as ``"1 tensor"`` or ``"4,406 tensors"``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def three_digits(value: float) -> str:
    """Return a number with three significant digits, whole from 100 on and never as a power."""
    if value >= 100:
        return f"{value:,.0f}"
    digits = f"{value:.3g}"
    return digits if "e" not in digits else f"{value:.{2 + int(digits.partition('e-')[2])}f}"


def both_bytes(size: int) -> str:
    """Return bytes with a unit and with every digit, such as ``"3.806 GiB (4,086,158,532)"``."""
    return f"{human_bytes(size)} ({exact_bytes(size)})"


def given_bytes(size: int) -> str:
    """Return bytes that a user gave as a limit; a unit may have been forgotten."""
    written = f"{size} bytes ({size} GiB is written {size}GiB)"
    return written if 0 < size < 1024 else both_bytes(size)


def exact_bytes(size: int) -> str:
    """Return bytes with every digit, such as ``"4,086,158,532"``."""
    return f"{size:,}"
