"""JSON files from anywhere: bounded, strict, and every fault an ``InstanceError`` of one line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from planners.columns import shown
from planners.errors import InstanceError
from planners.output_file import write_output

# As Python objects, nested lists take some twenty times their text.
MAX_FILE_BYTES = 1 << 28

_CHUNK_BYTES = 1 << 20


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path
        Gzipped where the name ends in ``.gz``; untrusted.

    Returns
    -------
    object
        The value; no object in it gives a field twice.

    Raises
    ------
    InstanceError
        The file cannot be read, is too large, or is no whole JSON text. The message leaves out
        the path.
    """
    return _parse(_read_bounded(path))


def require_fields(prefix: str, fields: Any, required: set[str], optional: set[str]) -> None:
    """Refuse an object that lacks a field or has one too many.

    Parameters
    ----------
    prefix
        What comes before a field's name in messages: empty, or the parent's name and a dot.
    fields
        What was read.
    required, optional
        Names of fields.

    Raises
    ------
    InstanceError
        Names the field.
    """
    if not isinstance(fields, dict):
        refuse(prefix.rstrip(".") or "file", "an object", fields)
    for field in sorted(required - fields.keys()):
        raise InstanceError(f"field {prefix}{field}: missing, and every file needs it")
    for field in sorted(fields.keys() - required - optional):
        known = ", ".join(sorted(required | optional))
        raise InstanceError(f"field {prefix}{_key(field)}: unknown; known fields are {known}")


def require_list(field: str, value: Any) -> None:
    """Refuse a field that is no list; raises ``InstanceError``."""
    if not isinstance(value, list):
        refuse(field, "a list", value)


def refuse(field: str, needed: str, found: object) -> NoReturn:
    """Raise the ``InstanceError`` for a field, with what is needed and what was found."""
    raise InstanceError(f"field {field}: {needed} is needed, found {shown(found)}")


def _key(key: str) -> str:
    return key if key.isprintable() and len(key) <= 60 else shown(key)


def _read_bounded(path: Path) -> bytes:
    chunks: list[bytes] = []
    room = MAX_FILE_BYTES
    try:
        with path.open("rb") as file:
            stream: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            while chunk := stream.read(_CHUNK_BYTES):
                room -= len(chunk)
                if room < 0:
                    raise InstanceError(f"the file holds more than {MAX_FILE_BYTES} bytes of JSON")
                chunks.append(chunk)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InstanceError(f"the file is no whole gzip file: {error}") from None
    except OSError as error:
        raise InstanceError(f"the file cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InstanceError(f"no file can have this name: {error}") from None
    return b"".join(chunks)


def _parse(data: bytes) -> Any:
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
        )
    except UnicodeDecodeError as error:
        raise InstanceError(f"the file is no UTF-8 text: byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InstanceError(
            f"the file is no whole JSON text: {error.msg} at line {error.lineno}, "
            f"column {error.colno}"
        ) from None
    except RecursionError:
        raise InstanceError("the file is no instance: its lists are nested too deeply") from None
    except ValueError:
        # Python's own limit on the digits that it turns into a whole number.
        raise InstanceError("the file holds a whole number of too many digits") from None


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InstanceError(f"field {_key(key)}: given twice")
            seen.add(key)
    return fields


def compact_json(value: Any) -> str:
    """Return a value as JSON without spaces; numbers must be finite."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def write_fields(fields: Mapping[str, Any], path: Path) -> None:
    """Write an object with a line a field, the same bytes for the same fields.

    Parameters
    ----------
    fields
        Plain values.
    path
        Target; gzipped where the name ends in ``.gz``.

    Raises
    ------
    GaplessError
        The file cannot be written.
    """
    lines = [f"{compact_json(key)}: {compact_json(value)}" for key, value in fields.items()]
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    write_output(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
