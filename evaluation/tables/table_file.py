"""Frames and tables of a page, as the table ``page`` of a study's file describes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tomllib import loads
from typing import Any

from evaluation.tables.expression import Expression
from planners.errors import InstanceError, near_names
from planners.text.plain_text import shown

# Frames and tables that several pages have.
SHARED = Path(__file__).with_name("shared.toml")

_PLACE = re.compile(r"\{(.+?)(?::([^'\":{}\[\]()]*))?\}")
_OF_A_FRAME = ("over", "add", "join", "each", "where", "by", "values")
_OF_EVIDENCE = ("over", "add", "join", "each", "where", "case", "cases", "figures")
_OF_A_TABLE = ("over", "add", "join", "each", "where", "by", "lines", "columns", "sort", "best",
               "sections", "title", "turned", "require")  # fmt: skip
_OF_A_COLUMN = ("heading", "cell", "bold", "missing", "optional", "total", "across", "names",
                "columns", "where")  # fmt: skip


@dataclass(frozen=True)
class Template:
    """A text with places such as ``{median(peak):,}``."""

    # Texts and, at each odd place, a formula with its format.
    parts: Sequence[str | tuple[Expression, str]]

    @classmethod
    def read(cls, text: object, where: str) -> Template:
        if type(text) is not str:
            raise InstanceError(f"{where}: a text is needed, found {shown(text)}")
        parts: list[str | tuple[Expression, str]] = []
        end = 0
        for found in _PLACE.finditer(text):
            formula = Expression.read(found[1], where)
            parts += [text[end : found.start()], (formula, found[2] or "")]
            end = found.end()
        return cls([*parts, text[end:]])


@dataclass(frozen=True)
class Steps:
    """How the rows of a frame come about, one step after the other."""

    where_it_stands: str
    over: str
    # A frame whose rows are added.
    add: str
    # Names of frames whose columns are added, and the column in which both are equal.
    join: Mapping[str, str]
    each: Mapping[str, Expression]
    where: Expression | None
    by: Sequence[str]
    # Of each group one row with these values; the rows as they are where it is None.
    values: Mapping[str, Expression] | None


@dataclass(frozen=True)
class ColumnText:
    """A column of a table, or the same columns for every value of a column of the frame."""

    heading: Template
    cell: Template
    bold: Expression | None = None
    missing: Template | None = None
    optional: bool = False
    total: Template | None = None


@dataclass(frozen=True)
class Across:
    """The same columns for every value of a column of the frame, or for every column of a name."""

    where_it_stands: str
    column: str
    # A wildcard over columns of numbers, which are then called ``value``, and what they are called
    # at the star ``name``.
    names: str
    where: Expression | None
    columns: Sequence[ColumnText]


@dataclass(frozen=True)
class Line:
    """A row of a table that is not a group: what it is called, and which rows it is about."""

    where: Expression | None
    # Is the column ``value`` of its rows.
    value: Expression | None
    # Columns that have one value in all of its rows.
    words: Mapping[str, Any]


@dataclass(frozen=True)
class TableText:
    """A table of a page."""

    steps: Steps
    # In place of groups, where there are some.
    lines: Sequence[Line]
    columns: Sequence[ColumnText | Across]
    sort: Sequence[Expression]
    # Whether the name is bold of the rows that are equal to the first one in what sorts them.
    best: bool
    # One table for each value of this column, below this title.
    sections: str
    title: Template
    turned: bool
    # What has to be so in each row, and what is said where it is not.
    require: Sequence[tuple[Expression, Template]]


@dataclass(frozen=True)
class EvidenceText:
    """Cases that claims are about, and what each figure of a case is."""

    steps: Steps
    # The column that has the name of the case; and all names that there are to be.
    case: str
    cases: Sequence[str]
    figures: Mapping[str, Expression]


def named_tables(kind: str, page: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the ``frames`` or ``tables`` of a page, those that every page has among them."""
    own = _table(f"page.{kind}", page.get(kind, {}))
    found = {**_shared_file().get(kind, {}), **own}
    return {name: _table(f"page.{kind}.{name}", table) for name, table in found.items()}


def named_texts(page: Mapping[str, Any]) -> dict[str, Template]:
    """Return the ``texts`` of a page."""
    texts = _table("page.texts", page.get("texts", {}))
    return {name: Template.read(text, f"page.texts.{name}") for name, text in texts.items()}


def with_columns(name: str, tables: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a table with its columns, which may be those of another table."""
    columns = tables[name].get("columns")
    if isinstance(columns, str) and columns in tables:
        columns = tables[columns].get("columns")
    return {**tables[name], "columns": columns}


@cache
def _shared_file() -> Mapping[str, Any]:
    return loads(SHARED.read_text(encoding="utf-8"))


def read_steps(where: str, table: Mapping[str, Any], known: Sequence[str] = _OF_A_FRAME) -> Steps:
    """Return what a frame or a table says of its rows."""
    _require_known(where, table, known)
    each = _formulas(f"{where}.each", table.get("each", {}))
    values = table.get("values")
    condition = table.get("where")
    return Steps(
        where,
        _text(f"{where}.over", table.get("over", "runs")),
        _text(f"{where}.add", table.get("add", "")),
        dict(_table(f"{where}.join", table.get("join", {}))),
        each,
        None if condition is None else Expression.read(condition, f"{where}.where"),
        _names(f"{where}.by", table.get("by", [])),
        None if values is None else _formulas(f"{where}.values", values),
    )


def read_rows(where: str, table: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows of a frame that stands in the file; an empty text is unknown."""
    _require_known(where, table, ("columns", "rows"))
    columns = _names(f"{where}.columns", table.get("columns"))
    rows = _list(f"{where}.rows", table.get("rows"))
    for index, row in enumerate(rows):
        if len(_list(f"{where}.rows[{index}]", row)) != len(columns):
            raise InstanceError(
                f"{where}.rows[{index}]: {len(columns)} values are needed, found {len(row)}"
            )
        for value in row:
            if type(value) not in (str, int, float, bool):
                raise InstanceError(
                    f"{where}.rows[{index}]: texts and numbers are needed, found {shown(value)}"
                )
    # TOML has no value for what is unknown.
    return columns, [[None if value == "" else value for value in row] for row in rows]


def read_page(where: str, table: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page and the heading of a frame that is the table of a committed page."""
    _require_known(where, table, ("page", "heading"))
    page, heading = (_text(f"{where}.{name}", table.get(name)) for name in ("page", "heading"))
    return page, heading


def read_table(where: str, table: Mapping[str, Any]) -> TableText:
    """Return a table; ``InstanceError`` names the field that is wrong."""
    steps = read_steps(where, table, _OF_A_TABLE)
    columns = [
        _column(f"{where}.columns[{index}]", column)
        for index, column in enumerate(_list(f"{where}.columns", table.get("columns")))
    ]
    sort = _list(f"{where}.sort", table.get("sort", []))
    require = _list(f"{where}.require", table.get("require", []))
    lines = _list(f"{where}.lines", table.get("lines", []))
    return TableText(
        steps,
        [_line(f"{where}.lines[{index}]", line) for index, line in enumerate(lines)],
        columns,
        [Expression.read(text, f"{where}.sort[{index}]") for index, text in enumerate(sort)],
        table.get("best") is True,
        _text(f"{where}.sections", table.get("sections", "")),
        Template.read(table.get("title", ""), f"{where}.title"),
        table.get("turned") is True,
        [_rule(f"{where}.require[{index}]", rule) for index, rule in enumerate(require)],
    )


def read_evidence(where: str, table: Mapping[str, Any]) -> EvidenceText:
    """Return what claims are held against; ``InstanceError`` names the field that is wrong."""
    return EvidenceText(
        read_steps(where, table, _OF_EVIDENCE),
        _text(f"{where}.case", table.get("case")),
        _names(f"{where}.cases", table.get("cases")),
        _formulas(f"{where}.figures", table.get("figures")),
    )


def _rule(where: str, rule: Any) -> tuple[Expression, Template]:
    if not isinstance(rule, list) or len(rule) != 2:
        raise InstanceError(f"{where}: a formula and what to say are needed, found {shown(rule)}")
    return Expression.read(rule[0], where), Template.read(rule[1], where)


def _line(where: str, line: Any) -> Line:
    formulas = {
        name: Expression.read(text, f"{where}.{name}")
        for name, text in _table(where, line).items()
        if name in ("where", "value")
    }
    words = {name: word for name, word in line.items() if name not in formulas}
    return Line(formulas.get("where"), formulas.get("value"), words)


def _column(where: str, column: Any) -> ColumnText | Across:
    if isinstance(column, list):
        if len(column) != 2:
            raise InstanceError(f"{where}: a heading and a cell are needed, found {shown(column)}")
        return ColumnText(Template.read(column[0], where), Template.read(column[1], where))
    _require_known(where, _table(where, column), _OF_A_COLUMN)
    if "across" in column or "names" in column:
        condition = column.get("where")
        inner = [
            _column(f"{where}.columns[{index}]", each)
            for index, each in enumerate(_list(f"{where}.columns", column.get("columns")))
        ]
        return Across(
            where,
            _text(f"{where}.across", column.get("across", "")),
            _text(f"{where}.names", column.get("names", "")),
            None if condition is None else Expression.read(condition, f"{where}.where"),
            [each for each in inner if isinstance(each, ColumnText)],
        )
    bold, missing, total = column.get("bold"), column.get("missing"), column.get("total")
    return ColumnText(
        Template.read(column.get("heading"), f"{where}.heading"),
        Template.read(column.get("cell"), f"{where}.cell"),
        None if bold is None else Expression.read(bold, f"{where}.bold"),
        None if missing is None else Template.read(missing, f"{where}.missing"),
        column.get("optional") is True,
        None if total is None else Template.read(total, f"{where}.total"),
    )


def _formulas(where: str, table: Any) -> dict[str, Expression]:
    return {
        name: Expression.read(text, f"{where}.{name}")
        for name, text in _table(where, table).items()
    }


def _require_known(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in _table(where, table):
        if name not in known:
            raise InstanceError(f"{where}.{name}: unknown; {near_names(name, known)}")


def _table(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InstanceError(f"{where}: a table is needed, found {shown(value)}")
    return value


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InstanceError(f"{where}: a list is needed, found {shown(value)}")
    return value


def _names(where: str, value: Any) -> list[str]:
    return [_text(where, each) for each in _list(where, value)]


def _text(where: str, value: Any) -> str:
    if type(value) is not str:
        raise InstanceError(f"{where}: a text is needed, found {shown(value)}")
    return value
