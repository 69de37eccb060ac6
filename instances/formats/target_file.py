"""What a format that is written cannot hold: one error."""

from __future__ import annotations

from typing import NoReturn

from planners.errors import InstanceError


def refuse_target(target: str, needed: str, found: str) -> NoReturn:
    """Raise the ``InstanceError`` for what a format cannot hold."""
    raise InstanceError(f"{target} holds {needed}, found {found}")
