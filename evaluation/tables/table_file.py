"""Frames and tables of a page, as the table ``page`` of a study's file describes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tomllib import loads
from typing import Any, TypeVar

from msgspec import Struct

from evaluation.study.typed_values import typed
from evaluation.tables.expression import Expression
from planners.errors import InstanceError, errors_at
from planners.text.plain_text import shown

# Frames and tables that several pages share.
SHARED = Path(__file__).with_name("shared.toml")

_PLACE = re.compile(r"\{(.+?)(?::([^'\":{}\[\]()]*))?\}")

Read = TypeVar("Read", bound="Steps")


class Template:
    """A text with places such as ``{median(peak):,}``."""

    IN_WORDS = "a text"

    def __init__(self, parts: Sequence[str | tuple[Expression, str]]) -> None:
        # Texts and, at each odd place, a formula with its format.
        self.parts = parts

    @classmethod
    def read(cls, text: object) -> Template:
        if type(text) is not str:
            raise InstanceError(f"a text is needed, found {shown(text)}")
        parts: list[str | tuple[Expression, str]] = []
        end = 0
        for found in _PLACE.finditer(text):
            parts += [text[end : found.start()], (Expression.read(found[1]), found[2] or "")]
            end = found.end()
        return cls([*parts, text[end:]])


class Steps(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The steps that make the rows of a frame or a table, in the order of their fields."""

    over: str = "runs"
    # A frame whose rows are added.
    add: str = ""
    # Names of frames whose columns are added, and the column in which both are equal.
    join: dict[str, str] = {}
    each: dict[str, Expression] = {}
    where: Expression | None = None
    by: list[str] = []


class FrameText(Steps, frozen=True, kw_only=True):
    """A frame: made by steps, written as rows, or read from a table of a committed page."""

    # Each group becomes one row with these values; without them the rows stay as they are.
    values: dict[str, Expression] | None = None
    columns: list[str] = []
    rows: list[list[str | int | float | bool]] | None = None
    page: str = ""
    # The table is the first one below this heading.
    heading: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows or (), 1):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"field rows: {len(self.columns)} values are needed, found {len(row)} in row "
                    f"{number}"
                )


class ColumnText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column of a table, or columns that repeat for each value or each name of a column."""

    heading: Template | None = None
    cell: Template | None = None
    bold: Expression | None = None
    missing: Template | None = None
    optional: bool = False
    total: Template | None = None
    # The inner columns repeat for each value of this column of the frame.
    across: str = ""
    # A wildcard over numeric columns, for each of which the inner columns repeat. These call the
    # matching column ``value``, and the part of its name at the star ``name``.
    names: str = ""
    columns: list[ColumnText] = []
    where: Expression | None = None

    def __post_init__(self) -> None:
        is_leaf = self.heading is not None and self.cell is not None
        if not (self.across or self.names or is_leaf):
            raise ValueError("a heading and a cell are needed, or one of across and names")


class TableText(Steps, frozen=True, kw_only=True):
    """A table of a page."""

    # Rows in place of groups: ``where`` chooses the rows that a line is about, ``value`` becomes
    # their column ``value``, and all other keys are columns with one value.
    lines: list[dict[str, Any]] = []
    columns: list[ColumnText]
    sort: list[Expression] = []
    # The name is bold in each row whose sort keys equal those of the first row.
    best: bool = False
    # One table for each value of this column, below this title.
    sections: str = ""
    title: Template = Template([""])
    turned: bool = False
    # A condition on each row, and the message of the error if a row breaks it.
    require: list[tuple[Expression, Template]] = []


class EvidenceText(Steps, frozen=True, kw_only=True):
    """Cases that claims are about, and the formula of each figure of a case."""

    # The column with the name of the case, and the names of all expected cases.
    case: str
    cases: list[str]
    figures: dict[str, Expression]


def read_text(where: str, text: object, kind: type[Read]) -> Read:
    """Return a frame, table or evidence; ``InstanceError`` names a faulty field."""
    with errors_at(where):
        if isinstance(text, Mapping) and isinstance(text.get("columns"), list):
            text = {**text, "columns": [_spelled_out(each) for each in text["columns"]]}
        found: Read = typed(text, kind)
        return found


def _spelled_out(column: Any) -> Any:
    """Return a column with named fields if it is written as a pair of heading and cell."""
    if isinstance(column, list) and len(column) == 2:
        return {"heading": column[0], "cell": column[1]}
    if isinstance(column, dict) and isinstance(column.get("columns"), list):
        return {**column, "columns": [_spelled_out(each) for each in column["columns"]]}
    return column


def named_tables(kind: str, page: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``frames`` or ``tables`` of a page, including those that all pages share."""
    with errors_at(f"page.{kind}"):
        own: dict[str, Any] = typed(page.get(kind, {}), dict[str, Any])
    return {**_shared_file().get(kind, {}), **own}


def named_texts(page: Mapping[str, Any]) -> dict[str, Template]:
    """Return the ``texts`` of a page."""
    with errors_at("page.texts"):
        texts: dict[str, Template] = typed(page.get("texts", {}), dict[str, Template])
        return texts


def with_columns(name: str, tables: Mapping[str, Any]) -> Any:
    """Return a table with its columns, which may be those of another table."""
    its = tables[name]
    other = its.get("columns") if isinstance(its, Mapping) else None
    if isinstance(other, str) and isinstance(tables.get(other), Mapping):
        return {**its, "columns": tables[other].get("columns")}
    return its


@cache
def _shared_file() -> Mapping[str, Any]:
    return loads(SHARED.read_text(encoding="utf-8"))
