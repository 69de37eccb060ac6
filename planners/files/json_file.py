"""Reads untrusted JSON files: bounded, strict, and each fault an ``InstanceError`` of one line.

Note: what a file may unfold to
-------------------------------
Rationale. A gzip file of 256 KiB can unpack to 256 MiB of ``[],[],...``, of which Python makes a
list of 64 bytes for every three bytes: 7 GiB. A limit on one of these steps does not limit both.

Approach. The reader unpacks the text and estimates the bytes of its Python objects from its commas,
quotes and brackets. It parses nothing before the estimate is known to stay within a multiple of the
bytes given. Instances that Gapless writes take 20 to 85 times their gzipped bytes; a plain file
takes at most some 60 times its own bytes, and only the absolute limit can stop it.

Limits. Signs within strings count as if they stood outside, so the estimate errs upwards. A sound
gzipped file of millions of equal entries can be refused; the same file unpacked is read.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from planners.errors import InstanceError
from planners.files.bounded_file import CHUNK_BYTES, pieces_of
from planners.files.file_limits import MAX_TEXT_BYTES, Allowance
from planners.files.output_file import write_output
from planners.text.plain_text import shown

OBJECT_BYTES = Allowance(
    "bytes of lists and numbers", free=1 << 27, for_bytes=1, more=256, most=1 << 32
)

GZIP_MAGIC = b"\x1f\x8b"

# Most bytes of Python objects for a sign: a slot in a list or a dictionary, half a string, a list,
# a dictionary with an entry. Every byte of the text counts `_BYTES_OF_BYTE` besides.
_BYTES_OF_SIGN = {b",": 9, b'"': 25, b"[": 96, b"{": 256}
_BYTES_OF_BYTE = 8


def read_json(path: Path) -> Any:
    """Read an untrusted JSON file, gzipped or not; no object in it may give a field twice."""
    given = b"".join(pieces_of(path, MAX_TEXT_BYTES + 1))
    return parse_json(given, gzipped=path.suffix == ".gz" or given.startswith(GZIP_MAGIC))


def parse_json(given: bytes, *, gzipped: bool = False) -> Any:
    """Read the bytes of an untrusted JSON file under the same rules."""
    return _parse(_text_of(given, gzipped=gzipped))


def require_fields(prefix: str, fields: Any, required: set[str], optional: set[str]) -> None:
    """Refuse an object that lacks a field or has one too many; `prefix` stands before its name."""
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


def _text_of(given: bytes, *, gzipped: bool) -> bytes:
    """Return the text, unpacked, after a check that its Python objects stay within the limits."""
    most = OBJECT_BYTES.of(len(given))
    objects = length = 0
    pieces: list[bytes] = []
    packed = io.BytesIO(given)
    text: Any = gzip.GzipFile(fileobj=packed) if gzipped else packed
    try:
        while piece := text.read(CHUNK_BYTES):
            pieces.append(piece)
            length += len(piece)
            objects += _object_bytes(piece)
            if length > MAX_TEXT_BYTES:
                raise InstanceError(f"the file holds more than {MAX_TEXT_BYTES} bytes of JSON")
            if objects > most:
                raise InstanceError(
                    f"the {len(given)} bytes of the file unfold to more than the {most} bytes of "
                    f"lists and numbers that are taken for them"
                )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InstanceError(f"the file is no whole gzip file: {error}") from None
    return b"".join(pieces)


def _object_bytes(text: bytes) -> int:
    """Return an upper estimate of the bytes of Python objects for a piece of a text."""
    signs = sum(text.count(sign) * cost for sign, cost in _BYTES_OF_SIGN.items())
    return signs + _BYTES_OF_BYTE * len(text)


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
        # Python limits the digits of a whole number that it reads.
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
    """Write an object with a line for each field, the same bytes for the same fields."""
    lines = [f"{compact_json(key)}: {compact_json(value)}" for key, value in fields.items()]
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    write_output(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
