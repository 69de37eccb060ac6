"""Values of a file as typed structures of msgspec; each fault is one line with the rule.

Note: a second search for each fault
------------------------------------
Rationale. msgspec reads in one fast pass, but its message names neither the value found nor the key
of the mapping that holds it.

Approach. A sound file costs one pass. In a file with a fault, each part is converted by itself,
from the outside to the inside, until the smallest refused part is found.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from planners.errors import InstanceError, errors_at, near_names
from planners.text.plain_text import shown

Typed = TypeVar("Typed")

_WORDS = {
    str: "a text", bool: "true or false", int: "a whole number", float: "a number",
    datetime: "a date and time as ISO 8601 has them",
}  # fmt: skip


def typed(value: object, kind: type[Typed] | Any) -> Typed:
    """Return a value of lists and mappings as a typed one; raises ``InstanceError``."""
    try:
        found: Typed = msgspec.convert(value, kind, dec_hook=_read)
        return found
    except (msgspec.ValidationError, RecursionError) as error:
        _refuse(value, kind, "", "", "")
        raise InstanceError(_said(error)) from None


def _read(kind: Any, value: object) -> object:
    """Return a value of a type that reads itself, by its method ``read``."""
    try:
        return kind.read(value)
    except InstanceError as error:
        raise ValueError(str(error)) from None


def _refuse(value: Any, kind: Any, where: str, name: str, needed: str) -> None:
    """Raise the ``InstanceError`` of the smallest part of a value that is not of its kind."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        described = [meta.description for meta in args[1:] if isinstance(meta, msgspec.Meta)]
        _refuse(value, args[0], where, name, next(filter(None, described), needed))
    elif origin in (Union, UnionType):
        _refuse_all(value, args, where, name, needed)
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        _refuse_structure(value, kind, where, name)
    elif origin in (dict, Mapping) or kind is dict:
        if not isinstance(value, dict):
            _say(where, name, "an object, or a table,", value)
        for key, each in value.items() if args else ():
            _descend(key, args[0], where, f"{name}.{shown(key)}", "")
            _descend(each, args[1], where, f"{name}.{key}", "")
    elif origin in (list, tuple, Sequence) and isinstance(value, list | tuple):
        its = list(args[:1] * len(value)) if len(args) == 1 or args[-1] is Ellipsis else list(args)
        for number, each in enumerate(value):
            item = its[number] if number < len(its) else object
            is_table = isinstance(each, dict)
            inner = f"{where}{name} {number + 1}, " if is_table else where
            _descend(each, item, inner, "" if is_table else f"{name}[{number}]", "")
        _say(where, name, needed or f"a list of {len(its)}", value)
    else:
        if hasattr(kind, "read"):
            with errors_at(f"{where}field {name}"):
                kind.read(value)
        _say(where, name, needed or _in_words(kind, origin, args), value)


def _descend(value: Any, kind: Any, where: str, name: str, needed: str) -> None:
    try:
        msgspec.convert(value, kind, dec_hook=_read)
    except (msgspec.ValidationError, RecursionError):
        _refuse(value, kind, where, name, needed)


def _refuse_all(value: Any, kinds: Sequence[Any], where: str, name: str, needed: str) -> None:
    """Refuse a value of none of several kinds; a tag names the kind whose rule it breaks."""
    rest = [kind for kind in kinds if kind is not NoneType]
    if len(rest) == 1:
        return _refuse(value, rest[0], where, name, needed)
    if not all(isinstance(kind, type) and issubclass(kind, msgspec.Struct) for kind in rest):
        each = (_in_words(kind, get_origin(kind), get_args(kind)) for kind in rest)
        _say(where, name, needed or " or ".join(dict.fromkeys(each)), value)
    if not isinstance(value, dict):
        _say(where, name, "an object, or a table,", value)
    tags = {kind.__struct_config__.tag: kind for kind in rest}
    field = rest[0].__struct_config__.tag_field
    found = value.get(field)
    if type(found) is not str or found not in tags:
        _say(where, field, f"one of {', '.join(tags)}", found)
    return _refuse_structure(value, tags[found], where, name)


def _refuse_structure(value: Any, kind: type[msgspec.Struct], where: str, name: str) -> None:
    if not isinstance(value, dict):
        _say(where, name, "an object, or a table,", value)
    prefix = f"{name}." if name else ""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    config = kind.__struct_config__
    for key in value:
        if key not in fields and key != config.tag_field and config.forbid_unknown_fields:
            raise InstanceError(
                f"{where}field {shown(f'{prefix}{key}')}: unknown; {near_names(key, fields)}"
            )
    for key, field in fields.items():
        if field.required and key not in value:
            raise InstanceError(f"{where}field {prefix}{key}: missing, and it is needed")
    hints = get_type_hints(kind, include_extras=True)
    for key, field in fields.items():
        if key in value:
            _descend(value[key], hints[field.name], where, f"{prefix}{key}", "")
    try:
        msgspec.convert(value, kind, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise InstanceError(f"{where}{_said(error)}") from None


def _say(where: str, name: str, needed: str, value: object) -> NoReturn:
    found = "nothing" if value is None and where else shown(value)
    field = f"{where}field {name}: " if name else where
    raise InstanceError(f"{field}{needed} is needed, found {found}")


def _in_words(kind: Any, origin: Any, args: Sequence[Any]) -> str:
    if origin is Annotated:
        described = [meta.description for meta in args[1:] if isinstance(meta, msgspec.Meta)]
        return next(filter(None, described), _WORDS.get(args[0], "another value"))
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}" if len(args) > 1 else str(args[0])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {', '.join(str(each.value) for each in kind)}"
    if origin in (list, tuple, Sequence):
        return "a list"
    return getattr(kind, "IN_WORDS", _WORDS.get(kind, "another value"))


def _said(error: Exception) -> str:
    """Return a message of msgspec without its own path."""
    return str(error).partition(" - at `")[0]
