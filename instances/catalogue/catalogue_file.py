"""``catalogue.toml``, read and written here alone, the same bytes for the same entries."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from instances.catalogue.entry import Entry, entry_from_fields, entry_to_fields
from planners.errors import InstanceError
from planners.output_file import write_output

FOLDER = Path(__file__).parents[1]
CATALOGUE = FOLDER / "catalogue.toml"

FORMAT = "gapless-catalogue"
VERSION = 1

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = f"""\
# Written by `python -m instances update`; origin, tags and notes are kept as they stand here.
# docs/catalogue.md says what the fields mean.
format = "{FORMAT}"
version = {VERSION}
"""


def read_catalogue(path: Path = CATALOGUE) -> dict[str, Entry]:
    """Read the catalogue.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    dict
        Entries by name, sorted.

    Raises
    ------
    InstanceError
        The file cannot be read or breaks a rule; the message names file, entry and field.
    """
    try:
        return _entries(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InstanceError(f"{path}: the file cannot be read: {error.strerror}") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise InstanceError(f"{path}: the file is no TOML: {error}") from None
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None


def write_catalogue(entries: Iterable[Entry], path: Path = CATALOGUE) -> None:
    """Write the catalogue, sorted by name.

    Parameters
    ----------
    entries
        Each name once.
    path
        The file.

    Raises
    ------
    GaplessError
        The file cannot be written.
    """
    tables = [_table(entry) for entry in sorted(entries, key=lambda entry: entry.name)]
    write_output(path, "\n".join([_HEAD, *tables]).encode())


def _entries(content: dict[str, Any]) -> dict[str, Entry]:
    found = content.get("format"), content.get("version")
    if found != (FORMAT, VERSION):
        raise InstanceError(
            f"fields format and version: {FORMAT!r} and {VERSION} are needed, found {found[0]!r} "
            f"and {found[1]!r}"
        )
    tables = content.get("instance", {})
    if not isinstance(tables, dict):
        raise InstanceError("field instance: a table for each instance is needed")
    return {name: entry_from_fields(name, tables[name]) for name in sorted(tables)}


def _table(entry: Entry) -> str:
    fields = entry_to_fields(entry)
    inner = {key: value for key, value in fields.items() if isinstance(value, dict)}
    name = f"instance.{_key(entry.name)}"
    lines = [f"[{name}]", *(_line(key, fields[key]) for key in fields if key not in inner)]
    for table, values in inner.items():
        lines += [f"[{name}.{table}]", *(_line(key, value) for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _line(key: str, value: str | int | bool | list[str]) -> str:
    # What JSON writes for these types is TOML as well.
    return f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
