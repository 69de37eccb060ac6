"""The claims of a study, as the table ``page`` of its file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from evaluation.study.typed_values import typed
from evaluation.tables.claim import Claim
from planners.errors import InstanceError, errors_at
from planners.text.plain_text import shown


def claims_of(page: Mapping[str, Any]) -> tuple[Claim, ...]:
    """Return the claims in the table ``page`` of a study, in their order; none where it has none.

    Raises ``InstanceError`` for what is wrong with one.
    """
    tables = page.get("claim", {})
    if not isinstance(tables, dict):
        raise InstanceError(f"page.claim: a table for each claim is needed, found {shown(tables)}")
    return tuple(_claim(key, table) for key, table in tables.items())


def _claim(key: str, table: Any) -> Claim:
    with errors_at(f"page.claim.{key}"):
        claim: Claim = typed(table, Claim)
        if claim.key:
            raise InstanceError(f"field key: the name of its table is its key, found {claim.key!r}")
        if bool(claim.figure) == bool(claim.says_why):
            raise InstanceError(
                f"either a figure or says_why is needed, why nothing measures it, found "
                f"{'both' if claim.figure else 'neither'}"
            )
        if claim.figure and claim.at_least is None and claim.at_most is None:
            raise InstanceError("at_least or at_most is needed, found neither")
    return replace(claim, key=key)
