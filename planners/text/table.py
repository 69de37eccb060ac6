"""One table: aligned text for pipes and files, colours for terminals, Markdown for pages."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planners.text.plain_text import Markdown, markdown_text, printable

if TYPE_CHECKING:
    from rich.table import Table as RichTable

BEST_MARK = "*"
BEST_STYLE = "bold green"

# Spaces between columns, and the fewer spaces if a terminal has no room for these.
BETWEEN = 2
LEAST_BETWEEN = 1
# Fewest characters of a column that may wrap.
LEAST_WRAPPED = 8


@dataclass(frozen=True)
class Column:
    """The properties that the cells below one heading share."""

    # May have several lines, which are joined outside of a terminal.
    heading: str
    # True for words, which are aligned left; numbers are aligned right.
    is_left: bool = False
    # In a narrow terminal, cells wrap if ``wraps``, or are cut to ``cut_to`` characters.
    wraps: bool = False
    cut_to: int | None = None
    # Style of rich for every cell.
    style: str = ""

    def __post_init__(self) -> None:
        # Kinds of calls and names of figures are foreign text.
        if not self.heading.isprintable():
            lines = "\n".join(map(printable, self.heading.split("\n")))
            object.__setattr__(self, "heading", lines)


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    cells: Sequence[str]
    # Stands before the line if the table has marks.
    mark: str = ""
    # Style of rich.
    style: str = ""

    def __post_init__(self) -> None:
        # Names of files and of planners are foreign text.
        object.__setattr__(self, "cells", tuple(map(printable, self.cells)))

    @classmethod
    def best(cls, cells: Sequence[str]) -> Row:
        """Return a row that stands out."""
        return cls(cells, BEST_MARK, BEST_STYLE)


@dataclass(frozen=True)
class Table:
    """Columns and rows, for a terminal, a pipe or a page."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    is_marked: bool = False
    # Headings of columns that a narrow terminal leaves out, the least important first.
    first_left_out: Sequence[str] = ()
    # True if a narrow terminal shows rows as columns.
    turns: bool = False

    def plain(self, indent: str = "", most: int = sys.maxsize) -> str:
        """Return aligned text: all rows, or the first ones and the number of the others."""
        columns, lines = self._with_marks()
        shown = [[_on_one_line(column) for column in columns], *lines[:most]]
        text = [(BETWEEN * " ").join(cells).rstrip() for cells in _padded(shown, columns)]
        return "".join(f"{indent}{line}\n" for line in [*text, *and_more(len(lines), most)])

    def markdown(self) -> str:
        """Return Markdown with the best row in bold; only `Markdown` may have markup."""
        lines = [[markdown_text(_on_one_line(column)) for column in self.columns]]
        for row in self.rows:
            name, *others = map(markdown_text, row.cells)
            lines.append([Markdown(f"**{name}**") if row.mark == BEST_MARK else name, *others])
        rules = [
            "-" * (width + 2) if column.is_left else "-" * (width + 1) + ":"
            for column, width in zip(self.columns, _widths(lines), strict=True)
        ]
        head, *body = (f"| {' | '.join(cells)} |" for cells in _padded(lines, self.columns))
        return "\n".join([head, f"|{'|'.join(rules)}|", *body])

    def rich(self, width: int) -> RichTable:
        """Return the table for a terminal that is ``width`` characters wide."""
        # Imported here because a table in a pipe does not need it.
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        columns, lines = self._with_marks()
        natural = [
            max(1, *map(len, column.heading.split("\n")), *(len(line[index]) for line in lines))
            for index, column in enumerate(columns)
        ]
        if self.turns and _together(natural, BETWEEN) > width:
            return self._turned().rich(width)
        widths, between = self._fitted(columns, natural, width)
        table = RichTable(
            box=box.SIMPLE_HEAD, padding=(0, between - 1, 0, 0), show_edge=False, pad_edge=False
        )
        for index, characters in widths.items():
            column = columns[index]
            table.add_column(
                Text(column.heading),
                justify="left" if column.is_left else "right",
                no_wrap=not column.wraps,
                overflow="fold" if column.cut_to is None else "ellipsis",
                vertical="bottom",
                width=characters,
                style=column.style,
            )
        for row, line in zip(self.rows, lines, strict=True):
            table.add_row(*(Text(line[index]) for index in widths), style=row.style)
        return table

    def _with_marks(self) -> tuple[Sequence[Column], list[Sequence[str]]]:
        if not self.is_marked:
            return self.columns, [row.cells for row in self.rows]
        marks = Column("", is_left=True)
        return [marks, *self.columns], [[row.mark, *row.cells] for row in self.rows]

    def _fitted(
        self, columns: Sequence[Column], natural: Sequence[int], width: int
    ) -> tuple[dict[int, int], int]:
        """Return the characters of each column that is shown, and the spaces between them."""
        shown = {
            index: most if column.cut_to is None else min(column.cut_to, most)
            for index, (column, most) in enumerate(zip(columns, natural, strict=True))
        }
        headings = [column.heading for column in columns]
        for heading in self.first_left_out:
            if _together(shown.values(), BETWEEN) > width:
                del shown[headings.index(heading)]
        between = BETWEEN if _together(shown.values(), BETWEEN) <= width else LEAST_BETWEEN
        spare = width - _together(shown.values(), between)
        for index, enough in shown.items():
            least = min(LEAST_WRAPPED, enough) if columns[index].wraps else enough
            shown[index] = min(natural[index], max(least, enough + spare))
            spare -= shown[index] - enough
        return shown, between

    def _turned(self) -> Table:
        """Return the table whose columns are the rows of this one."""
        columns = [Column("", is_left=True, wraps=True)]
        columns += [
            Column(f"{row.mark} {row.cells[0]}".strip(), wraps=True, style=row.style)
            for row in self.rows
        ]
        rows = [
            Row([_on_one_line(column), *(row.cells[index] for row in self.rows)])
            for index, column in enumerate(self.columns[1:], start=1)
        ]
        return Table(columns, rows)


def columns_of(*headings: str, left: int = 1) -> tuple[Column, ...]:
    """Return columns; the first ``left`` ones hold words and the others numbers."""
    return tuple(Column(heading, index < left) for index, heading in enumerate(headings))


def aligned_pairs(pairs: Iterable[tuple[str, object]], indent: str = "") -> str:
    """Return a line for each pair, with the second texts aligned."""
    lines = [(printable(first), printable(str(second))) for first, second in pairs]
    width = max((len(first) for first, _ in lines), default=0)
    return "".join(f"{indent}{first:{width}}  {second}".rstrip() + "\n" for first, second in lines)


def and_more(number: int, shown: int) -> list[str]:
    """Return the line below a list that shows only its first entries, or nothing."""
    return [f"... and {number - shown:,} more"] if number > shown else []


def _on_one_line(column: Column) -> str:
    heading = column.heading
    return heading.replace("\n", " ") if "\n" in heading else heading


def _widths(lines: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(len, cells)) for cells in zip(*lines, strict=True)]


def _together(widths: Collection[int], between: int) -> int:
    """Return the characters of columns with spaces between them."""
    return sum(widths) + between * (len(widths) - 1)


def _padded(lines: Sequence[Sequence[str]], columns: Sequence[Column]) -> list[list[str]]:
    """Return cells padded to the width of the widest cell of their column."""
    widths = _widths(lines)
    return [
        [
            cell.ljust(width) if column.is_left else cell.rjust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ]
        for line in lines
    ]
