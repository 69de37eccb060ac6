"""Dimensions that a file leaves open, such as a batch, and the sizes that a user gives them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from planners.errors import GaplessError, InstanceError, near_names
from planners.text.plain_text import shown

Dimensions = Mapping[str, int]

MAX_DIMENSION = 1 << 40
# Open dimensions that a message names.
MOST_SHOWN = 16


def parse_dimensions(texts: Iterable[str]) -> dict[str, int]:
    """Return the sizes that all options ``--dimension NAME=N`` give, by name."""
    dimensions: dict[str, int] = {}
    for text in texts:
        name, _, digits = text.rpartition("=")
        # int() takes more than a command line should: underscores, spaces, foreign digits.
        is_size = digits.isascii() and digits.isdigit() and len(digits) < 14
        if not name or not is_size or not 1 <= int(digits) <= MAX_DIMENSION:
            raise GaplessError(
                f"--dimension: NAME=N with N from 1 to {MAX_DIMENSION} is needed, found "
                f"{shown(text)}"
            )
        if name in dimensions:
            raise GaplessError(f"--dimension: one size for {shown(name)} is needed, found two")
        dimensions[name] = int(digits)
    return dimensions


def require_dimensions(open_dimensions: Mapping[str, str], given: Collection[str]) -> None:
    """Refuse a dimension that is not open, and an open one that has no size.

    The mapping has the place of each open dimension in the file.
    """
    for name in given:
        if name not in open_dimensions:
            known = near_names(name, open_dimensions) if open_dimensions else "none is open"
            raise InstanceError(f"--dimension: no dimension is called {shown(name)}; {known}")
    left = [name for name in open_dimensions if name not in given]
    if left:
        listed = ", ".join(f"{name} ({open_dimensions[name]})" for name in left[:MOST_SHOWN])
        more = f" and {len(left) - MOST_SHOWN} more" if len(left) > MOST_SHOWN else ""
        options = " ".join(f"--dimension {name}=N" for name in left[:MOST_SHOWN])
        raise InstanceError(
            f"a size for every dimension is needed, open are {listed}{more}; give {options} to "
            f"planners.compare or instances.convert"
        )
