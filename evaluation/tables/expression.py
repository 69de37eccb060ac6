"""Expressions over a frame, such as ``median(peak[planner == 'auto']) / bound - 1``.

Note: the language
------------------
Rationale. A cell of a table is a formula over some rows. As data, the formula stands beside its
heading in the study's file: a reader of the table needs no Python file.

Approach. The grammar is that of Python: names of columns, numbers, texts, lists, arithmetic,
comparisons, ``and``, ``or``, ``not``, ``a if b else c`` and calls of :data:`FUNCTIONS`. The name of
a column stands for its values in the current rows; ``column[condition]``, for its values in the
rows in which the condition holds. ``within(formula, column, ...)`` gives each row the value of the
formula over all rows that are equal in these columns. An unknown value, such as the peak of a run
without a plan, stays unknown in arithmetic, and aggregates such as ``median`` leave it out.

Limits. A formula sees its rows only; it calls nothing that is not in the list.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import reduce
from typing import TYPE_CHECKING, Any

from planners.errors import GaplessError, InstanceError, near_names
from planners.text.plain_text import one_line

if TYPE_CHECKING:
    from pandas import DataFrame

MISSING = float("nan")
CONSTANTS: Mapping[str, Any] = {
    "missing": MISSING, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "MB": 1e6, "GB": 1e9,
}  # fmt: skip
# Prefixes of columns that not all records have; such a column is unknown in a frame without it.
OPEN_PREFIXES = ("statistics.", "parameters.", "bounds.", "settings.")

# Errors of pandas and NumPy if the types or shapes of values do not fit together.
_NO_VALUE = (
    ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError,
)  # fmt: skip
_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


class Expression:
    """A parsed formula."""

    IN_WORDS = "a formula"

    def __init__(self, text: str, tree: ast.expr) -> None:
        self.text, self.tree = text, tree

    @classmethod
    def read(cls, text: object) -> Expression:
        """Return the parsed formula; raises ``InstanceError`` if the text is no formula."""
        if type(text) is not str:
            raise InstanceError(f"a formula is needed, found {text!r}")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InstanceError(f"{text!r} is no formula: {error}") from None
        return cls(text, tree)

    def over(self, frame: DataFrame) -> Any:
        """Return the value of the formula over the rows of a frame: a column or one value."""
        try:
            return self._value(self.tree, frame)
        except GaplessError:
            raise
        except _NO_VALUE as error:
            raise InstanceError(f"{self.text!r} has no value: {error}") from None

    def one(self, frame: DataFrame) -> Any:
        """Return one value; of a column, the first known value."""
        value = first(self.over(frame))
        if isinstance(value, list):
            raise InstanceError(f"{self.text!r}: one value is needed, found {value!r}")
        return value

    def _value(self, node: ast.AST, frame: DataFrame) -> Any:
        match node:
            case ast.Constant(value=value) if isinstance(value, str | int | float | bool):
                return value
            case ast.List(elts=nodes) | ast.Tuple(elts=nodes):
                return [self._value(each, frame) for each in nodes]
            case ast.Name() | ast.Attribute():
                return self._column(ast.unparse(node), frame)
            case ast.Subscript(value=of, slice=condition):
                return self._chosen(of, condition, frame)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return _divided(self._value(left, frame), self._value(right, frame))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
                return _BINARY[type(sign)](self._value(left, frame), self._value(right, frame))
            case ast.UnaryOp(op=ast.USub(), operand=of):
                return -self._value(of, frame)
            case ast.UnaryOp(op=ast.Not(), operand=of):
                return _not(self._value(of, frame))
            case ast.BoolOp(op=sign, values=nodes):
                joined = operator.and_ if isinstance(sign, ast.And) else operator.or_
                return reduce(joined, (_truth(self._value(each, frame)) for each in nodes))
            case ast.Compare(left=left, ops=[ast.In()], comparators=[right]):
                return _is_in(self._value(left, frame), self._value(right, frame))
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _BINARY:
                return _BINARY[type(sign)](self._value(left, frame), self._value(right, frame))
            case ast.IfExp(test=test, body=body, orelse=other):
                holds = first(self._value(test, frame))
                return self._value(body if is_known(holds) and holds else other, frame)
            case ast.Call(func=ast.Name(id="within"), args=[of, *keys], keywords=[]):
                return self._within(of, [ast.unparse(key) for key in keys], frame)
            case ast.Call(func=ast.Name(id=name), args=nodes, keywords=[]):
                return self._called(name, [self._value(each, frame) for each in nodes], frame)
        raise InstanceError(f"{ast.unparse(node)!r} is not allowed in a formula")

    def _column(self, name: str, frame: DataFrame) -> Any:
        from pandas import Series

        if name in CONSTANTS and name not in frame.columns:
            return CONSTANTS[name]
        if name.startswith(OPEN_PREFIXES) and name not in frame.columns:
            return Series(MISSING, index=frame.index)
        require_columns([name], frame, repr(self.text))
        return frame[name]

    def _chosen(self, of: ast.expr, condition: ast.expr, frame: DataFrame) -> Any:
        return self._value(of, rows_where(self._value(condition, frame), frame))

    def _within(self, of: ast.expr, keys: list[str], frame: DataFrame) -> Any:
        from pandas import Series

        require_columns(keys, frame, repr(self.text))
        found = Series(MISSING, index=frame.index, dtype=object)
        if len(frame):
            for _, rows in frame.groupby(keys, sort=False, dropna=False):
                found[rows.index] = first(self._value(of, rows))
        return found.infer_objects()

    def _called(self, name: str, values: list[Any], frame: DataFrame) -> Any:
        if name == "column":
            return self._column(str(first(values[0])), frame)
        if name in OF_COLUMNS:
            columns = [each for each in frame.columns if fnmatchcase(each, values[0])]
            return OF_COLUMNS[name](frame[columns], *values[1:])
        if name not in FUNCTIONS:
            raise InstanceError(
                f"{self.text!r}: no function is called {name!r}; {near_names(name, FUNCTIONS)}"
            )
        return FUNCTIONS[name](*values)


def require_columns(names: Iterable[str], frame: DataFrame, where: str) -> None:
    """Raise an error if a frame lacks one of the columns; ``where`` begins its message."""
    for name in names:
        if name not in frame.columns:
            raise InstanceError(
                f"{where}: no column is called {name!r}; {near_names(name, frame.columns)}"
            )


def rows_where(condition: Any, frame: DataFrame) -> DataFrame:
    """Return the rows in which a condition holds; the condition may be one value for all rows."""
    holds = _truth(condition)
    if _is_column(holds):
        # A condition over a part of the rows does not hold in the other rows.
        return frame.loc[holds.reindex(frame.index, fill_value=False)]
    return frame if holds else frame.iloc[:0]


def is_known(value: object) -> bool:
    """Return True unless a value is None or not a number."""
    return value is not None and value == value


def first(value: Any) -> Any:
    """Return a single value as it is, or the first known value of a column."""
    if not _is_column(value):
        return value
    known = value.dropna()
    return known.iloc[0] if len(known) else MISSING


def _is_column(value: object) -> bool:
    return hasattr(value, "dropna")


def _truth(value: Any) -> Any:
    if _is_column(value):
        return value.fillna(False).astype(bool) if value.dtype != bool else value
    return bool(is_known(value) and value)


def _not(value: Any) -> Any:
    truth = _truth(value)
    return ~truth if _is_column(truth) else not truth


def _divided(above: Any, below: Any) -> Any:
    """Return a quotient; a quotient by 0 is unknown."""
    if _is_column(below):
        return above / below.where(below != 0)
    return above / below if below else MISSING * above


def _is_in(value: Any, names: list[Any]) -> Any:
    return value.isin(names) if _is_column(value) else value in names


def _aggregate(name: str) -> Callable[..., Any]:
    """Return an aggregate of a column, or of several single values."""

    def aggregate(*values: Any) -> Any:
        from pandas import Series

        its = values[0] if len(values) == 1 and _is_column(values[0]) else Series(
            [first(value) for value in values]
        )  # fmt: skip
        known = its.dropna()
        return getattr(known, name)() if len(known) else MISSING

    return aggregate


def _count(condition: Any) -> int:
    """Return in how many rows a condition holds, or how many values of a column are known."""
    return int(condition.sum() if condition.dtype == bool else condition.notna().sum())


def _known(*values: Any) -> Any:
    """Return True if a single value is known; of several, the first known one, row by row."""
    if len(values) == 1:
        return values[0].notna() if _is_column(values[0]) else is_known(values[0])

    def or_else(value: Any, other: Any) -> Any:
        if _is_column(value):
            return value.where(value.notna(), other)
        return value if is_known(value) else other

    return reduce(or_else, values)


def _where(condition: Any, value: Any, other: Any) -> Any:
    """Return, row by row, one value if a condition holds and another if not."""
    from pandas import Series

    holds = _truth(condition)
    chosen = value if _is_column(value) else Series(value, index=holds.index)
    return chosen.where(holds, other)


def _whole(column: Any) -> Any:
    """Return a column if all its values are known, else one without known values."""
    return column if column.notna().all() else column.where(column != column)


def _names_of(frame: DataFrame, value: object) -> Any:
    """Return for each row the names of the columns that hold a value, without their prefixes."""
    return _row_by_row(frame, lambda name, its: name if its is value or its == value else "")


def _differing(frame: DataFrame) -> Any:
    """Return for each row the columns that differ from their most frequent value, with values."""
    usual = {name: frame[name].mode() for name in frame.columns}
    return _row_by_row(
        frame,
        lambda name, its: (
            "" if not is_known(its) or its == usual[name].iloc[0] else f"{name}={_text(its)}"
        ),
    )


def _row_by_row(frame: DataFrame, say: Callable[[str, Any], str]) -> Any:
    from pandas import Series

    texts = [
        ", ".join(
            text.removeprefix("parameters.").removeprefix("statistics.")
            for name, its in row.items()
            if (text := say(str(name), its))
        )
        for row in frame.to_dict("records")
    ]
    return Series(texts, index=frame.index, dtype=object)


def _text(value: Any) -> str:
    """Return a value as text; a whole number without decimals."""
    if isinstance(value, bool):
        return str(value).lower()
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def _listed(column: Any) -> str:
    """Return the distinct values of a column, in the order of their first rows."""
    return ", ".join(dict.fromkeys(map(_text, column.dropna())))


def _tally(column: Any) -> str:
    """Return the only value of a column, or each of several values with its count."""
    counts = column.map(_text).value_counts()
    if len(counts) == 1:
        return str(counts.index[0])
    return "; ".join(f"{value} ({count})" for value, count in counts.items())


def _line(column: Any, most: int) -> Any:
    """Return texts as one line of at most ``most`` characters."""
    return column.map(lambda text: one_line(text, most) if isinstance(text, str) else "")


def _like(column: Any, pattern: str) -> Any:
    """Return whether texts match a wildcard."""
    return column.map(lambda text: isinstance(text, str) and fnmatchcase(text, pattern)).astype(
        bool
    )


def _without(column: Any, part: str) -> Any:
    """Return texts without a part at their beginning or at their end."""
    return column.map(
        lambda text: text.removeprefix(part).removesuffix(part) if isinstance(text, str) else text
    )


def _but_settings(column: Any, *keys: str) -> Any:
    """Return names of instances without some of their settings."""

    def but(name: str) -> str:
        return ":".join(part for part in name.split(":") if part.partition("=")[0] not in keys)

    return column.map(but)


# Functions of all columns whose names match a wildcard.
OF_COLUMNS: Mapping[str, Callable[..., Any]] = {
    "total_of": lambda frame: frame.sum(axis=1), "names_of": _names_of, "differing": _differing,
}  # fmt: skip
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: _aggregate(name) for name in ("median", "mean", "min", "max", "sum", "all", "any")},
    "count": _count, "distinct": lambda column: column.nunique(), "first": first,
    "last": lambda column: first(column[::-1]), "known": _known, "where": _where,
    "whole": _whole, "listed": _listed, "like": _like, "without": _without,
    "but_settings": _but_settings, "round": round, "tally": _tally,
    "text": lambda column: column.map(_text), "line": _line,
}  # fmt: skip
