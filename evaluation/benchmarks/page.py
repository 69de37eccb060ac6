"""A page of tables in Markdown, as the benchmarks print them and docs/ keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from evaluation.benchmarks.measure import environment


@dataclass
class Page:
    """Tables and sentences in the order they were added.

    Parameters
    ----------
    title
        Heading.
    command
        What makes this page.
    """

    title: str
    command: str
    parts: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(text)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table; the first column is aligned left, the others right.

        Parameters
        ----------
        headers
            One a column.
        rows
            One string a column.
        """
        widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
            return "| " + " | ".join([cells[0].ljust(widths[0]), *padded[1:]]) + " |"

        rule = "|" + "|".join(
            "-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)
        )
        self.parts.append("\n".join([line(headers), rule + "|", *map(line, rows)]))

    def render(self) -> str:
        """Return the page as Markdown."""
        made_by = f"Made by `{self.command}` on {date.today()}; {environment()}."
        return "\n\n".join([f"# {self.title}", made_by, *self.parts]) + "\n"


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds with three significant digits."""
    return _three_digits(seconds * 1e3)


def mebibytes(count: float) -> str:
    """Return bytes as MiB with three significant digits."""
    return _three_digits(count / (1 << 20))


def seconds(value: float) -> str:
    """Return seconds to the millisecond, and from ten on with three significant digits."""
    return f"{value:.3f}" if value < 10 else f"{value:.3g}"


def ratio(numerator: float, denominator: float) -> str:
    """Return how many times one cost is of another."""
    return times(numerator / denominator) if denominator > 0 else "-"


def times(value: float) -> str:
    """Return a ratio as it stands in a table."""
    return f"{value:.1f}x"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
