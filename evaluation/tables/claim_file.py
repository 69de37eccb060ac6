"""The claims of a study, as the table ``page`` of its file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from evaluation.tables.claim import Claim
from planners.errors import InstanceError, near_names
from planners.text.plain_text import shown

UNITS = ("percent", "times", "seconds", "count", "yes")
_TEXTS = ("says", "where", "paper", "figure", "unit", "says_why")
_NUMBERS = ("at_least", "at_most")
_NAMES = ("only", "without")
_KNOWN = frozenset(field.name for field in fields(Claim)) - {"key"}


def claims_of(page: Mapping[str, Any]) -> tuple[Claim, ...]:
    """Return the claims in the table ``page`` of a study, in their order; none where it has none.

    Raises ``InstanceError`` for what is wrong with one.
    """
    tables = page.get("claim", {})
    if not isinstance(tables, dict):
        raise InstanceError(f"page.claim: a table for each claim is needed, found {shown(tables)}")
    return tuple(_claim(key, table) for key, table in tables.items())


def _claim(key: str, table: Any) -> Claim:
    where = f"page.claim.{key}"
    if not isinstance(table, dict):
        raise InstanceError(f"{where}: a table is needed, found {shown(table)}")
    for name in table.keys() - _KNOWN:
        raise InstanceError(f"{where}.{name}: unknown; {near_names(name, _KNOWN)}")
    for name in ("says", "where", "paper"):
        if name not in table:
            raise InstanceError(f"{where}.{name}: missing, and every claim needs it")
    values = {name: _value(f"{where}.{name}", name, value) for name, value in table.items()}
    claim = Claim(key=key, **values)
    if bool(claim.figure) == bool(claim.says_why):
        raise InstanceError(
            f"{where}: either a figure or says_why is needed, why nothing measures it, found "
            f"{'both' if claim.figure else 'neither'}"
        )
    if claim.figure and claim.at_least is None and claim.at_most is None:
        raise InstanceError(f"{where}: at_least or at_most is needed, found neither")
    return claim


def _value(where: str, name: str, value: Any) -> Any:
    if name in _TEXTS:
        if type(value) is not str or not value:
            raise InstanceError(f"{where}: a text is needed, found {shown(value)}")
        if name == "unit" and value not in UNITS:
            raise InstanceError(f"{where}: {near_names(value, UNITS)}")
        return value
    if name in _NUMBERS:
        if type(value) not in (int, float):
            raise InstanceError(f"{where}: a number is needed, found {shown(value)}")
        return float(value)
    if name in _NAMES:
        if not isinstance(value, list) or not all(type(each) is str for each in value):
            raise InstanceError(
                f"{where}: a list of names of cases is needed, found {shown(value)}"
            )
        return tuple(value)
    if name == "of_mean":
        if type(value) is not bool:
            raise InstanceError(f"{where}: true or false is needed, found {shown(value)}")
        return value
    if type(value) is not int or value < 1:
        raise InstanceError(
            f"{where}: a whole number of at least 1 is needed, found {shown(value)}"
        )
    return value
