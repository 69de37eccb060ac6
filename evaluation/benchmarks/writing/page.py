"""A page of tables in Markdown, as the benchmarks print them and docs/ keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluation.benchmarks.writing.figure import Figure
from evaluation.measuring.environment import measured_now
from planners.errors import GaplessError
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of


class ImplausiblePageError(GaplessError):
    """A page would say what cannot be true; it is not written."""


@dataclass
class Page:
    """Tables and sentences in the order they were added."""

    title: str
    # What makes this page.
    command: str
    parts: list[str] = field(default_factory=list)
    # When and on what, where a page is written from what was measured before.
    measured: str = ""

    def say(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(text)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str | Figure]]) -> None:
        """Add a table; the first column is aligned left, the others right."""
        if not rows:
            raise ImplausiblePageError(
                f"{self.title}: a table needs rows, found none below {', '.join(headers)}; "
                "no page is written"
            )
        cells = [Row(self._texts(headers, row)) for row in rows]
        self.parts.append(Table(columns_of(*headers), cells).markdown())

    def _texts(self, headers: Sequence[str], row: Sequence[str | Figure]) -> list[str]:
        for header, cell in zip(headers, row, strict=True):
            if isinstance(cell, Figure) and cell.fault:
                raise ImplausiblePageError(
                    f"{self.title}, row {row[0]!s}, {header} {cell.text}: {cell.fault}; "
                    "no page is written"
                )
        return [str(cell) for cell in row]

    def render(self) -> str:
        """Return the page as Markdown."""
        measured = self.measured or measured_now()
        made_by = f"Made by `{self.command}` on {measured}."
        return "\n\n".join([f"# {self.title}", made_by, *self.parts]) + "\n"


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds with three significant digits."""
    return three_digits(seconds * 1e3)


def mebibytes(count: float) -> str:
    """Return bytes as MiB with three significant digits."""
    return three_digits(count / (1 << 20))


def seconds(value: float) -> str:
    """Return seconds to the millisecond, and from ten on with three significant digits."""
    return f"{value:.3f}" if value < 10 else three_digits(value)


def ratio(numerator: float, denominator: float) -> str:
    """Return how many times one cost is of another."""
    return times(numerator / denominator) if denominator > 0 else "-"


def times(value: float) -> str:
    """Return a ratio as it stands in a table."""
    return f"{value:.1f}x"
