"""Bytes as people read them."""

from __future__ import annotations

BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def binary_unit(size: float) -> tuple[int, str]:
    """Return the unit in which a number of bytes is best read.

    Parameters
    ----------
    size
        Bytes, at least 0.

    Returns
    -------
    tuple of int and str
        Bytes of one unit, and its symbol.
    """
    power = 0
    # From 999.5 on, three digits no longer hold the number.
    while size / 1024**power >= 999.5 and power + 1 < len(BINARY_UNITS):
        power += 1
    return 1024**power, BINARY_UNITS[power]


def human_bytes(size: int) -> str:
    """Return bytes with a binary unit and three or four digits.

    Parameters
    ----------
    size
        Bytes, at least 0.

    Returns
    -------
    str
        Such as ``"3.805 GiB"``; exact below 1000 bytes.
    """
    scale, unit = binary_unit(size)
    if scale == 1:
        return f"{size} B"
    value = size / scale
    digits = 3 if value < 9.9995 else 2 if value < 99.995 else 1
    return f"{value:.{digits}f} {unit}"


def exact_bytes(size: int) -> str:
    """Return bytes with every digit, such as ``"4,086,158,532"``."""
    return f"{size:,}"
