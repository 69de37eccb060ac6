"""Tables as aligned text, for pipes and files."""

from __future__ import annotations

from collections.abc import Container, Sequence


def aligned_text(rows: Sequence[Sequence[str]], left: Container[int]) -> str:
    """Return rows of cells as lines whose columns are aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )
