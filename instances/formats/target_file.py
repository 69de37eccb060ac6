"""Files that are written: one error where a format cannot hold something or the disk refuses."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from planners.errors import GaplessError, InstanceError


def refuse_target(target: str, needed: str, found: str) -> NoReturn:
    """Raise the ``InstanceError`` for what a format cannot hold.

    Parameters
    ----------
    target
        What the format is called.
    needed
        What it can hold.
    found
        What it would have to hold.
    """
    raise InstanceError(f"{target} holds {needed}, found {found}")


def write_target(path: Path, data: bytes) -> None:
    """Write a file; raises ``GaplessError`` where that fails."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise GaplessError(f"{path}: it cannot be written: {error.strerror}") from None
