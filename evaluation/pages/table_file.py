"""Frames and tables of a page, as the table ``page`` of a study's file describes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from tomllib import loads
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from evaluation.study.typed_values import typed
from planners.errors import InstanceError, errors_at
from planners.text.plain_text import shown

# Frames and tables that several pages share.
SHARED = Path(__file__).with_name("shared.toml")

_PLACE = re.compile(r"\{(.+?)(?::([^'\":{}\[\]()]*))?\}")

Read = TypeVar("Read", bound=Struct)


class Template:
    """A text with places such as ``{median(peak):,}``: a formula of SQL, and its format."""

    IN_WORDS = "a text"

    def __init__(self, text: str) -> None:
        self.text = text
        # Texts; at each second place a formula, and behind each formula its format.
        self.parts = [part or "" for part in _PLACE.split(text)]

    @classmethod
    def read(cls, text: object) -> Template:
        if type(text) is not str:
            raise InstanceError(f"a text is needed, found {shown(text)}")
        return cls(text)

    @property
    def formulas(self) -> list[str]:
        """The formulas of all places."""
        return self.parts[1::3]


class FrameText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frame: a query, rows, or a table of a committed page."""

    sql: str = ""
    columns: list[str] = []
    rows: list[list[str | int | float | bool]] = []
    page: str = ""
    # The table is the first one below this heading.
    heading: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"field rows: {len(self.columns)} values are needed, found {len(row)} in row "
                    f"{number}"
                )


class ColumnText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column of a table, or columns that repeat for each value or each name of a column."""

    heading: Template | None = None
    cell: Template | None = None
    bold: str = ""
    missing: Template | None = None
    optional: bool = False
    total: Template | None = None
    # The inner columns repeat for each value of this column of the rows.
    across: str = ""
    # A wildcard such as ``statistics.*_calls``. The inner columns repeat for each name that it
    # matches, and have ``@`` in place of what the star stands for.
    names: str = ""
    columns: list[ColumnText] = []
    # The rows whose values of `across` have columns.
    where: str = "true"

    def __post_init__(self) -> None:
        is_leaf = self.heading is not None and self.cell is not None
        if not (self.across or self.names or is_leaf):
            raise ValueError("a heading and a cell are needed, or one of across and names")

    def named(self, name: str) -> ColumnText:
        """Return the column with a name in place of each ``@``."""
        texts = {
            field: None if text is None else Template(text.text.replace("@", name))
            for field in ("heading", "cell", "missing", "total")
            if isinstance(text := getattr(self, field), Template | None)
        }
        return replace(self, bold=self.bold.replace("@", name), **texts)

    def formulas(self) -> list[str]:
        """Return the formulas of a cell."""
        templates = [each for each in (self.cell, self.missing) if each is not None]
        found = [formula for each in templates for formula in each.formulas]
        return [*found, *filter(None, [self.bold])]


class TableText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a page: a query, and what its lines and columns show of the answer."""

    sql: str = "FROM runs"
    # Rows that are equal in these columns are one line; without them each row is.
    by: list[str] = []
    columns: list[ColumnText]
    sort: list[str] = []
    # The name is bold in each row whose sort keys equal those of the first row.
    best: bool = False
    # One table for each value of this column, below this title.
    sections: str = ""
    title: Template = Template("")
    turned: bool = False
    # A condition on each row, and the message of the error if a row breaks it.
    require: list[tuple[str, Template]] = []


class EvidenceText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cases that claims are about, and the formula of each figure of a case."""

    sql: str = "FROM runs"
    # The column with the name of the case, and the names of all expected cases.
    case: str
    cases: list[str]
    figures: dict[str, str]


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
    return {**shared_file().get(kind, {}), **own}


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


def texts_of(value: Any) -> Iterable[str]:
    """Yield all texts in a table of TOML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from texts_of(each)


@cache
def shared_file() -> Mapping[str, Any]:
    """Return the frames, tables, macros and columns of texts that all pages share."""
    return loads(SHARED.read_text(encoding="utf-8"))
