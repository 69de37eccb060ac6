"""Reads and writes JSON files. Readers trust no file: memory is bounded, and faults are one line.

Note: limits on unfolding
-------------------------
Rationale. A gzipped file of a quarter of a megabyte can unpack to 256 MiB of ``[],[],...``. Python
makes a list of 64 bytes of every three of these bytes: 7 GiB. A limit on the unpacking alone, or on
the parsing alone, does not limit the product of both.

Approach. While the text is unpacked, the memory of its Python objects is estimated from its commas,
quotes and brackets. The text is parsed only if the estimate stays within `OBJECT_BYTES`, which
grows with the bytes of the file. Instances that Gapless writes take 20 to 85 times their gzipped
bytes as objects. A plain file takes at most some 60 times its own bytes, so that only the absolute
limit of `OBJECT_BYTES` can refuse it.

Limits. Signs within strings are counted as well, so the estimate may be too high. A valid gzipped
file of millions of equal entries may be refused; the same file is read if it is not gzipped.
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
from planners.files.bounded_file import CHUNK_BYTES, GZIP_MAGIC, pieces_of
from planners.files.file_limits import MAX_TEXT_BYTES, Allowance
from planners.files.output_file import write_output
from planners.text.plain_text import shown

OBJECT_BYTES = Allowance(
    "bytes of lists and numbers", free=1 << 27, for_bytes=1, more=256, most=1 << 32
)

# Estimated bytes of memory for each sign of the text: a comma stands for a slot in a list or a
# dictionary, a quote for half a string, a bracket for a list, a brace for a dictionary with one
# entry. Every byte of the text, signs included, adds `_BYTES_OF_BYTE`.
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
    """Refuse an object that lacks a field or has an unknown one; errors name it after `prefix`."""
    if not isinstance(fields, dict):
        refuse(prefix.rstrip(".") or "file", "an object", fields)
    for field in sorted(required - fields.keys()):
        raise InstanceError(f"field {prefix}{field}: missing, and every file needs it")
    for field in sorted(fields.keys() - required - optional):
        known = ", ".join(sorted(required | optional))
        raise InstanceError(f"field {prefix}{_key(field)}: unknown; known fields are {known}")


def require_list(field: str, value: Any) -> None:
    """Refuse a field that is not a list; raises ``InstanceError``."""
    if not isinstance(value, list):
        refuse(field, "a list", value)


def refuse(field: str, needed: str, found: object) -> NoReturn:
    """Raise the ``InstanceError`` for a field, with what is needed and what was found."""
    raise InstanceError(f"field {field}: {needed} is needed, found {shown(found)}")


def _key(key: str) -> str:
    return key if key.isprintable() and len(key) <= 60 else shown(key)


def _text_of(given: bytes, *, gzipped: bool) -> bytes:
    """Return the unpacked text; refuse a text whose Python objects would take too much memory."""
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
                    f"a file of {len(given)} bytes may unfold to at most {most} bytes of lists "
                    f"and numbers, found more"
                )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InstanceError(f"the file is not a whole gzip file: {error}") from None
    return b"".join(pieces)


def _object_bytes(text: bytes) -> int:
    """Return an upper estimate of the memory that a piece of text takes as Python objects."""
    signs = sum(text.count(sign) * cost for sign, cost in _BYTES_OF_SIGN.items())
    return signs + _BYTES_OF_BYTE * len(text)


def _parse(data: bytes) -> Any:
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
        )
    except UnicodeDecodeError as error:
        raise InstanceError(f"the file is not UTF-8 text: byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InstanceError(
            f"the file is not a whole JSON text: {error.msg} at line {error.lineno}, "
            f"column {error.colno}"
        ) from None
    except RecursionError:
        raise InstanceError("not an instance: its lists are nested too deeply") from None
    except ValueError:
        # Python limits the number of digits from which it makes a whole number.
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
    """Write an object with one line for each field; the same fields give the same bytes."""
    lines = [f"{compact_json(key)}: {compact_json(value)}" for key, value in fields.items()]
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    write_output(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
