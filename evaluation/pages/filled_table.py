"""Tables of a page, filled from its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from evaluation.pages import figure_texts
from evaluation.pages.figure_texts import NOTHING
from evaluation.pages.frames import Frames, Values
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.table_file import (
    ColumnText,
    TableText,
    Template,
    named_tables,
    named_texts,
    read_text,
    with_columns,
)
from planners.compare.report import percent
from planners.errors import GaplessError, InstanceError, errors_at
from planners.text.byte_units import human_bytes, three_digits
from planners.text.plain_text import Markdown, markdown_text, shown
from planners.text.table import Column, Row, Table

# The formats that a template may name after a formula, such as ``{peak:human}``. Any other format
# is a format specification of Python.
FORMATS: Mapping[str, Callable[[Any], str]] = {
    "percent": percent, "share": figure_texts.percent, "digits": three_digits,
    "ms": figure_texts.milliseconds, "s": figure_texts.seconds,
    "time": figure_texts.seconds_text,
    "human": lambda size: human_bytes(int(size)),
    "above": figure_texts.percent_above,
    "times": lambda ratio: f"{ratio:,.1f}x",
    "listed": lambda values: ", ".join(dict.fromkeys(_plain_texts(values))),
    "tally": lambda values: _tally(Counter(_plain_texts(values))),
    "yes": lambda holds: "yes" if holds else "no",
}  # fmt: skip


# The frame of the rows of the table that is being filled.
LINES = "lines"


def table_fillers(material: PageMaterial) -> dict[str, Callable[[], str]]:
    """Return, by name, functions that fill the tables and texts that a page describes."""
    tables = named_tables("tables", material.words)
    texts = named_texts(material.words)

    def filled(name: str) -> str:
        where = f"page.tables.{name}"
        table = read_text(where, with_columns(name, tables), TableText)
        return fill_table(table, material.frames, where)

    def text(name: str) -> str:
        with errors_at(f"page.texts.{name}"):
            return _only_text(material.frames, "runs", texts[name])

    return {
        **{name: partial(filled, name) for name in tables},
        **{name: partial(text, name) for name in texts},
    }


def fill_table(table: TableText, frames: Frames, where: str) -> str:
    """Return a filled table as Markdown; empty if the records have no row for it."""
    with errors_at(where):
        frames.keep(LINES, table.sql)
        if not table.sections:
            return _section(table, frames, LINES)
        sections = []
        for (value,), _ in frames.values(LINES, [table.sections], ()):
            rows = frames.rows_with(LINES, table.sections, value)
            title = _only_text(frames, rows, table.title, [table.sections])
            sections.append("\n\n".join(filter(None, [title, _section(table, frames, rows)])))
        return "\n\n".join(sections)


@dataclass(frozen=True)
class CellText:
    """A cell of a table; ``is_words`` is True if it holds words and no number."""

    text: Markdown
    is_words: bool = False


EMPTY = CellText(Markdown(NOTHING))


@dataclass(frozen=True)
class _Leaf:
    """One column of a finished table; its cells are in the order of its rows in the database."""

    column: ColumnText
    heading: str
    total: CellText
    cells: Mapping[tuple[Any, ...], CellText]


def _section(table: TableText, frames: Frames, rows: str) -> str:
    says = [formula for _, text in table.require for formula in text.formulas]
    asked = [*table.sort, *(rule for rule, _ in table.require), *says]
    lines = _by_line(table, frames, rows, [table.sections], asked)
    for values in lines.values():
        for rule, text in table.require:
            if not values[rule]:
                raise GaplessError(_text_of(text, values).text)
    if not lines:
        return ""
    keys = {
        line: tuple(_sortable(values[each]) for each in table.sort)
        for line, values in lines.items()
    }
    order = sorted(lines, key=lambda line: keys[line])
    leaves = [
        leaf
        for column in table.columns
        for leaf in _leaves(table, frames, rows, column)
        if not leaf.column.optional or any(its.text != NOTHING for its in leaf.cells.values())
    ]
    cells = [[leaf.cells.get(line, EMPTY) for leaf in leaves] for line in order]
    marks = [table.best and keys[line] == keys[order[0]] for line in order]
    if any(leaf.column.total is not None for leaf in leaves):
        cells.append([leaf.total for leaf in leaves])
        marks.append(False)
    return _markdown([leaf.heading for leaf in leaves], cells, marks, turned=table.turned)


def _by_line(
    table: TableText, frames: Frames, rows: str, same: Sequence[str], formulas: Sequence[str]
) -> dict[tuple[Any, ...], Values]:
    """Return the values of each line; columns in ``same`` have one value in all rows."""
    by = table.by or ["n"]
    keys = [*by, *filter(None, same)]
    found = frames.values(rows, keys, formulas, is_grouped=bool(table.by))
    return {key[: len(by)]: values for key, values in found}


def _leaves(table: TableText, frames: Frames, rows: str, column: ColumnText) -> Iterator[_Leaf]:
    if column.names:
        before, _, behind = column.names.partition("*")
        for name in frames.numbers(rows, column.names):
            for each in column.columns:
                its = each.named(name.removeprefix(before).removesuffix(behind))
                yield _leaf(table, frames, rows, its)
    elif column.across:
        chosen = f"(FROM {rows} WHERE {column.where})"
        for (value,), _ in frames.values(chosen, [column.across], ()):
            if value is not None:
                its_rows = frames.rows_with(rows, column.across, value)
                for each in column.columns:
                    yield _leaf(table, frames, its_rows, each, column.across)
    else:
        yield _leaf(table, frames, rows, column)


def _leaf(
    table: TableText, frames: Frames, rows: str, column: ColumnText, across: str = ""
) -> _Leaf:
    same = [*filter(None, [table.sections, across])]
    lines = _by_line(table, frames, rows, same, column.formulas())
    texts = [each or Template("") for each in (column.heading, column.total)]
    ((_, values),) = frames.values(rows, same, [*texts[0].formulas, *texts[1].formulas])
    heading, total = (_text_of(text, values) for text in texts)
    return _Leaf(
        column, heading.text, total, {key: _cell(column, its) for key, its in lines.items()}
    )


def _cell(column: ColumnText, values: Values) -> CellText:
    found = _text_of(column.cell, values)
    if found.text == NOTHING and column.missing is not None:
        return _text_of(column.missing, values)
    if column.bold and values[column.bold]:
        return CellText(Markdown(f"**{found.text}**"), found.is_words)
    return found


def _markdown(
    headings: Sequence[str], lines: list[list[CellText]], marks: list[bool], *, turned: bool
) -> str:
    if turned:
        cells = [[line[index] for line in lines] for index in range(len(headings))]
        names = [each.text for each in cells[0]]
        rows = [Row([name, *(each.text for each in line)])
                for name, line in zip(headings[1:], cells[1:], strict=True)]  # fmt: skip
        return Table([Column(headings[0], is_left=True), *map(Column, names)], rows).markdown()
    columns = [
        Column(heading, is_left=_are_words([line[index] for line in lines]))
        for index, heading in enumerate(headings)
    ]
    rows = [
        Row.best(texts) if is_best else Row(texts)
        for line, is_best in zip(lines, marks, strict=True)
        if (texts := [each.text for each in line])
    ]
    return Table(columns, rows).markdown()


def _are_words(cells: Sequence[CellText]) -> bool:
    known = [each for each in cells if each.text not in (NOTHING, "")]
    return bool(known) and all(each.is_words for each in known)


def _only_text(frames: Frames, rows: str, text: Template, same: Sequence[str] = ()) -> str:
    """Return a text about all rows."""
    ((_, values),) = frames.values(rows, same, text.formulas)
    return _text_of(text, values).text


def _text_of(template: Template | None, values: Values) -> CellText:
    """Return a text with its formulas filled in; `NOTHING` if one of them is unknown."""
    if template is None:
        return CellText(Markdown())
    its = [values[formula] for formula in template.formulas]
    if None in its:
        return EMPTY
    parts = template.parts
    texts = [parts[0]]
    for value, form, text in zip(its, parts[2::3], parts[3::3], strict=True):
        texts += [_shown(value, form), text]
    return CellText(Markdown("".join(texts).strip()), not its or _is_word(its[0]))


def _is_word(value: object) -> bool:
    return isinstance(value, str | list) and any(map(str.isalpha, str(value)))


def _shown(value: Any, form: str) -> str:
    try:
        if form in FORMATS:
            return FORMATS[form](value)
        if isinstance(value, str):
            return markdown_text(value)
        if form in ("", ",") and float(value).is_integer():
            return format(int(value), form)
        return format(value, form).replace("%", " %")
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InstanceError(f"{form!r} is no format of {shown(value)}: {error}") from None


def _plain_texts(values: Sequence[Any]) -> list[str]:
    """Return the known values as texts; whole numbers have no decimals."""
    known = [value for value in values if value is not None]
    return [
        f"{its:.0f}" if isinstance(its, float) and its.is_integer() else str(its) for its in known
    ]


def _tally(counts: Counter[str]) -> str:
    """Return the only value, or each of several values with its count."""
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({count})" for value, count in counts.most_common())


def _sortable(value: Any) -> tuple[int, Any]:
    """Return a sort key: numbers come first, then texts, then unknown values."""
    if value is None:
        return 2, 0
    return (1, value) if isinstance(value, str) else (0, value)
