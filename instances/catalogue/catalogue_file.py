"""``catalogue.toml``, read and written: the same entries are always the same bytes."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from instances.catalogue.catalogue_entry import CatalogueEntry, entry_from_fields, entry_to_fields
from planners.errors import InstanceError, errors_at
from planners.files.bounded_file import read_bounded
from planners.files.output_file import write_output
from planners.text.plain_text import shown

FOLDER = Path(__file__).parents[1]
CATALOGUE = FOLDER / "catalogue.toml"

FORMAT = "gapless-catalogue"
VERSION = 1

MAX_FILE_BYTES = 1 << 20
MAX_DOTS = 32

_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"""'
    r"|'''(?:[^']|'(?!''))*+'''"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'|#[^\n]*+",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = f"""\
# Written by `python -m instances update`; origin, tags and notes are kept as they stand here.
# docs/catalogue.md says what the fields mean.
format = "{FORMAT}"
version = {VERSION}
"""


def read_catalogue(path: Path = CATALOGUE) -> dict[str, CatalogueEntry]:
    """Read the catalogue."""
    with errors_at(path):
        return _entries(_parse(read_bounded(path, MAX_FILE_BYTES)))


def write_catalogue(entries: Iterable[CatalogueEntry], path: Path = CATALOGUE) -> None:
    """Write the catalogue, sorted by name."""
    tables = [_table(entry) for entry in sorted(entries, key=lambda entry: entry.name)]
    write_output(path, "\n".join([_HEAD, *tables]).encode())


def _parse(data: bytes) -> dict[str, Any]:
    try:
        text = data.decode("utf-8")
        _require_short_keys(text)
        return tomllib.loads(text)
    except RecursionError:
        raise InstanceError("the file is no catalogue: its lists are nested too deeply") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise InstanceError(f"the file is no TOML: {error}") from None


def _require_short_keys(text: str) -> None:
    # The parser's time grows with the square of the parts of a key.
    for line in _STRING_OR_COMMENT.sub("", text).split("\n"):
        if line.count(".") > MAX_DOTS:
            raise InstanceError(
                f"keys of at most {MAX_DOTS} dots a line are needed, found {line.count('.')}"
            )


def _entries(content: dict[str, Any]) -> dict[str, CatalogueEntry]:
    found = content.get("format"), content.get("version")
    if found != (FORMAT, VERSION):
        raise InstanceError(
            f"fields format and version: {FORMAT!r} and {VERSION} are needed, found "
            f"{shown(found[0])} and {shown(found[1])}"
        )
    tables = content.get("instance", {})
    if not isinstance(tables, dict):
        raise InstanceError("field instance: a table for each instance is needed")
    return {name: entry_from_fields(name, tables[name]) for name in sorted(tables)}


def _table(entry: CatalogueEntry) -> str:
    fields = entry_to_fields(entry)
    inner = {key: value for key, value in fields.items() if isinstance(value, dict)}
    name = f"instance.{_key(entry.name)}"
    lines = [f"[{name}]", *(_line(key, fields[key]) for key in fields if key not in inner)]
    for table, values in inner.items():
        lines += [f"[{name}.{table}]", *(_line(key, value) for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _line(key: str, value: str | int | bool | list[str]) -> str:
    # The JSON of these types is TOML as well.
    return f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
