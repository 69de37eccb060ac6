"""The header of a MiniMalloc CSV: which column means what, under which of its names."""

from __future__ import annotations

from dataclasses import dataclass

from planners.errors import InstanceError

REQUIRED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "gaps", "offset")
# What a search may look at and no plan has to obey: the hints of MiniMalloc, the kinds of tensors
# of omnimalloc.
IGNORED = ("hint", "kind")
INCLUSIVE_END = "end"
ALIASES = {
    "buffer": "id",
    "buffer_id": "id",
    "begin": "lower",
    "start": "lower",
    INCLUSIVE_END: "upper",
}
_CANONICAL = {name: name for name in (*REQUIRED, *OPTIONAL, *IGNORED)} | ALIASES


@dataclass(frozen=True)
class Header:
    """The columns of a table."""

    # Where each column stands, by its canonical name.
    place: dict[str, int]
    width: int
    # Each column as the file calls it, for messages.
    spelling: dict[str, str]
    # Whether lifetimes and gaps include their last step, as under the name ``end``.
    inclusive_end: bool


def read_header(cells: list[str]) -> Header:
    """Read the header row."""
    found = [cell.strip() for cell in cells]
    canonical = [_CANONICAL.get(name.lower(), "") for name in found]
    shown = f"{','.join(found)!r:.60}"
    for name in REQUIRED:
        if canonical.count(name) != 1:
            raise InstanceError(
                f"header: {','.join(REQUIRED)}, each once and in any order, is needed, "
                f"found {shown}"
            )
    for name, spelled in zip(canonical, found, strict=True):
        if not name:
            known = ",".join(_CANONICAL)
            raise InstanceError(
                f"header: column {spelled!r:.40} is unknown; known columns are {known}"
            )
        if canonical.count(name) > 1:
            raise InstanceError(f"header: column {name} once at most is needed, found {shown}")
    return Header(
        place={name: place for place, name in enumerate(canonical)},
        width=len(found),
        spelling=dict(zip(canonical, found, strict=True)),
        inclusive_end=INCLUSIVE_END in {name.lower() for name in found},
    )


def is_header(cells: list[str]) -> bool:
    """Return whether a row names all the columns that are needed."""
    return set(REQUIRED) <= {_CANONICAL.get(cell.strip().lower(), "") for cell in cells}
