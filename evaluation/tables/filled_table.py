"""Tables of a page, filled from its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from evaluation.report import figure_texts
from evaluation.report.figure_texts import NOTHING
from evaluation.report.slots import PageMaterial
from evaluation.tables.expression import Expression, first, is_known, require_columns, rows_where
from evaluation.tables.record_frame import frame_of_page, frame_of_rows, frames_of
from evaluation.tables.table_file import (
    ColumnText,
    FrameText,
    Steps,
    TableText,
    Template,
    named_tables,
    named_texts,
    read_text,
    with_columns,
)
from planners.compare.report import percent
from planners.errors import GaplessError, InstanceError, errors_at, near_names
from planners.text.byte_units import human_bytes, three_digits
from planners.text.plain_text import Markdown, markdown_text, shown
from planners.text.table import Column, Row, Table

if TYPE_CHECKING:
    from pandas import DataFrame

# The formats that a template may name after a formula, such as ``{peak:human}``. Any other format
# is a format specification of Python.
FORMATS: Mapping[str, Callable[[Any], str]] = {
    "percent": percent, "share": figure_texts.percent, "digits": three_digits,
    "ms": figure_texts.milliseconds, "s": figure_texts.seconds,
    "time": figure_texts.seconds_text,
    "human": lambda size: human_bytes(int(size)),
    "above": figure_texts.percent_above,
    "times": lambda ratio: f"{ratio:,.1f}x",
    "yes": lambda holds: "yes" if holds else "no",
}  # fmt: skip


class Frames:
    """The frames of a page by name; the first call for a frame makes it."""

    def __init__(self, material: PageMaterial) -> None:
        self._made = frames_of(material.cases)
        self._texts = named_tables("frames", material.words)
        # Frames whose making has begun; each needs the next, and a repeated name is an error.
        self._being_made: list[str] = []

    def frame(self, name: str, where: str) -> DataFrame:
        """Return a frame; ``where`` names in errors the place that refers to it."""
        if name not in self._made:
            if name not in self._texts:
                known = [*self._made, *self._texts]
                raise InstanceError(f"{where}: no frame is called {name!r}; "
                                    f"{near_names(name, known)}")  # fmt: skip
            if name in self._being_made:
                raise InstanceError(f"{where}: {name!r} is made from {self._being_made[-1]!r}")
            self._being_made.append(name)
            self._made[name] = self._from_text(f"page.frames.{name}", self._texts[name])
            self._being_made.pop()
        return self._made[name]

    def _from_text(self, where: str, text: object) -> DataFrame:
        steps = read_text(where, text, FrameText)
        if steps.page:
            return frame_of_page(steps.page, steps.heading)
        if steps.rows is not None:
            # TOML has no null value, so an empty text stands for an unknown value.
            known = [[None if its == "" else its for its in row] for row in steps.rows]
            return frame_of_rows(steps.columns, known)
        rows = self.rows(steps, where)
        if steps.values is None:
            return rows
        with errors_at(where):
            made = [
                {key: first(group[key]) for key in steps.by}
                | {name: value.one(group) for name, value in steps.values.items()}
                for group in groups_of(rows, steps.by)
            ]
        columns = [*steps.by, *steps.values]
        return frame_of_rows(columns, [list(row.values()) for row in made])

    def rows(self, steps: Steps, where: str) -> DataFrame:
        """Return the rows of a frame or a table, before they are grouped."""
        from pandas import concat

        with errors_at(where):
            frame = self.frame(steps.over, "field over").copy()
            if steps.add:
                frame = concat([frame, self.frame(steps.add, "field add")], ignore_index=True)
            for name, key in steps.join.items():
                other = self.frame(name, "field join")
                if key not in frame.columns and key in steps.each:
                    frame[key] = steps.each[key].over(frame)
                require_columns([key], frame, "field join")
                require_columns([key], other, "field join")
                # A column without known values has the type of numbers, and pandas does not merge
                # numbers with texts. So the keys are compared as objects.
                as_it_is = {key: object}
                frame = frame.astype(as_it_is).merge(other.astype(as_it_is), how="left", on=key)
            for name, formula in steps.each.items():
                frame[name] = formula.over(frame)
            require_columns(steps.by, frame, "field by")
            return _chosen(steps.where, frame)


def groups_of(frame: DataFrame, by: Sequence[str]) -> Iterator[DataFrame]:
    """Yield groups of rows that are equal in all given columns; without columns, single rows."""
    if not len(frame):
        return
    if by:
        for _, group in frame.groupby(list(by), sort=False, dropna=False):
            yield group
    else:
        for index in range(len(frame)):
            yield frame.iloc[index : index + 1]


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
            return _text_of(texts[name], material.frames.frame("runs", name)).text

    return {
        **{name: partial(filled, name) for name in tables},
        **{name: partial(text, name) for name in texts},
    }


def fill_table(table: TableText, frames: Frames, where: str) -> str:
    """Return a filled table as Markdown; empty if the records have no row for it."""
    rows = frames.rows(table, where)
    with errors_at(where):
        if not table.sections:
            return _section(table, rows)
        require_columns([table.sections], rows, "field sections")
        sections = []
        for part in groups_of(rows, [table.sections]):
            title = _text_of(table.title, part).text
            sections.append("\n\n".join(filter(None, [title, _section(table, part)])))
        return "\n\n".join(sections)


@dataclass(frozen=True)
class CellText:
    """A cell of a table; ``is_words`` is True if it holds words and no number."""

    text: Markdown
    is_words: bool = False


@dataclass(frozen=True)
class _Leaf:
    """One column of a finished table, and the rows of the frame that it shows."""

    column: ColumnText
    # A column of the frame, or empty. Without a `name`, only rows with `value` in it are shown.
    # With a `name`, all rows are shown, and formulas find the column under the name ``value``.
    across: str = ""
    value: Any = None
    name: str = ""

    def rows(self, frame: DataFrame) -> DataFrame:
        if self.name:
            return frame.assign(name=self.name, value=frame[self.across])
        return frame[frame[self.across] == self.value] if self.across else frame


def _section(table: TableText, frame: DataFrame) -> str:
    groups = list(_lines_of(table, frame) if table.lines else groups_of(frame, table.by))
    for group in groups:
        for rule, says in table.require:
            if not _holds_once(rule, group):
                raise GaplessError(_text_of(says, group).text)
    keys = [tuple(_sortable(each.one(group)) for each in table.sort) for group in groups]
    order = sorted(range(len(groups)), key=lambda index: keys[index])
    leaves = [leaf for column in table.columns for leaf in _leaves(column, frame)]
    lines = [[_cell(leaf, groups[index]) for leaf in leaves] for index in order]
    kept = [
        index
        for index, leaf in enumerate(leaves)
        if not leaf.column.optional or any(line[index].text != NOTHING for line in lines)
    ]
    leaves = [leaves[index] for index in kept]
    lines = [[line[index] for index in kept] for line in lines]
    if not lines:
        return ""
    marks = [table.best and keys[index] == keys[order[0]] for index in order]
    if any(leaf.column.total is not None for leaf in leaves):
        lines.append([_text_of(leaf.column.total, leaf.rows(frame)) for leaf in leaves])
        marks.append(False)
    headings = [_text_of(leaf.column.heading, leaf.rows(frame)).text for leaf in leaves]
    return _markdown(headings, lines, marks, turned=table.turned)


def _lines_of(table: TableText, frame: DataFrame) -> Iterator[DataFrame]:
    """Yield the rows that each line of a table is about; lines without rows are left out."""
    for line in table.lines:
        where, value = (
            Expression.read(line[key]) if key in line else None for key in ("where", "value")
        )
        rows = _chosen(where, frame)
        if len(rows):
            words = {name: word for name, word in line.items() if name not in ("where", "value")}
            rows = rows.assign(**words)
            yield rows if value is None else rows.assign(value=value.over(rows))


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


def _leaves(column: ColumnText, frame: DataFrame) -> Iterator[_Leaf]:
    if not column.across and not column.names:
        yield _Leaf(column)
        return
    rows = _chosen(column.where, frame)
    before, _, behind = column.names.partition("*")
    for name in frame.select_dtypes("number").columns if column.names else ():
        if fnmatchcase(name, column.names) and frame[name].notna().any():
            for each in column.columns:
                yield _Leaf(each, name, name=name.removeprefix(before).removesuffix(behind))
    if column.names:
        return
    require_columns([column.across], rows, "field across")
    for value in dict.fromkeys(rows[column.across].dropna()):
        for each in column.columns:
            yield _Leaf(each, column.across, value)


def _cell(leaf: _Leaf, group: DataFrame) -> CellText:
    rows, column = leaf.rows(group), leaf.column
    if not len(rows):
        return CellText(Markdown(NOTHING))
    found = _text_of(column.cell, rows)
    if found.text == NOTHING and column.missing is not None:
        return _text_of(column.missing, rows)
    if column.bold is not None and _holds_once(column.bold, rows):
        return CellText(Markdown(f"**{found.text}**"), found.is_words)
    return found


def _text_of(template: Template | None, frame: DataFrame) -> CellText:
    """Return a text with its formulas filled in; `NOTHING` if one of them is unknown."""
    if template is None:
        return CellText(Markdown())
    texts = []
    values = []
    for part in template.parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        formula, form = part
        value = formula.one(frame)
        if not is_known(value):
            return CellText(Markdown(NOTHING))
        values.append(value)
        texts.append(_shown(value, form))
    return CellText(Markdown("".join(texts).strip()), not values or _is_word(values[0]))


def _is_word(value: object) -> bool:
    return isinstance(value, str) and any(map(str.isalpha, value))


def _shown(value: Any, form: str) -> str:
    try:
        if form in FORMATS:
            return FORMATS[form](value)
        if isinstance(value, str):
            return markdown_text(value)
        if form in ("", ",") and float(value).is_integer():
            return format(int(value), form)
        return format(value, form).replace("%", " %")
    except (TypeError, ValueError, OverflowError) as error:
        raise InstanceError(f"{form!r} is no format of {shown(value)}: {error}") from None


def _chosen(condition: Expression | None, frame: DataFrame) -> DataFrame:
    return frame if condition is None else rows_where(condition.over(frame), frame)


def _holds_once(condition: Expression, frame: DataFrame) -> bool:
    holds = condition.one(frame)
    return bool(is_known(holds) and holds)


def _sortable(value: Any) -> tuple[int, Any]:
    """Return a sort key: numbers come first, then texts, then unknown values."""
    if not is_known(value):
        return 2, 0
    return (1, value) if isinstance(value, str) else (0, value)
