"""Files that ``--json`` wrote, read again to make a page of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from planners.errors import GaplessError

Study = TypeVar("Study")


def read_kept(text: str, name: str, schema: tuple[str, int], read: Callable[[Any], Study]) -> Study:
    """Read a file of this schema and version; GaplessError with its name where it is another."""
    try:
        record: Any = json.loads(text)
        found = (record["schema"], record["version"])
        if found != schema:
            raise GaplessError(
                f"{name}: schema {schema[0]!r} of version {schema[1]} is needed, found {found}"
            )
        return read(record)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise GaplessError(
            f"{name}: not a file that --json wrote, {type(error).__name__} {error}"
        ) from None
