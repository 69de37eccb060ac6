"""Writes the notebooks of two examples anew: python -m tests.examples.notebooks."""

from __future__ import annotations

import ast
import re
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.repository import ROOT

NAMES = ("fragmentation_of_a_snapshot", "heuristic_against_the_optimum")
# A comment after a blank line begins a part of an example.
PART = re.compile(r"\n\n(?=# )")


def cells_of(example: Path) -> list[tuple[str, str]]:
    """Return kind and source of each cell: prose from docstring and comments, and code."""
    text = example.read_text(encoding="utf-8")
    words = ast.get_docstring(ast.parse(text)) or ""
    code = text.split('"""', 2)[2]
    cells = [("markdown", f"# {words}")]
    for part in PART.split(code):
        lines = part.strip("\n").split("\n")
        words = " ".join(line[2:] for line in takewhile(lambda line: line.startswith("# "), lines))
        rest = "\n".join(dropwhile(lambda line: line.startswith("# "), lines))
        if words:
            cells.append(("markdown", words))
        cells.append(("code", rest))
    return cells


def executed(name: str, folder: Path) -> Any:
    """Return the notebook of an example, with the outputs that its cells have now."""
    notebook = nbformat.v4.new_notebook()
    for number, (kind, source) in enumerate(cells_of(ROOT / "examples" / f"{name}.py")):
        make = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        notebook.cells.append(make(source, id=f"cell-{number}"))
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, resources=resources, record_timing=False).execute()
    # The version of Python and the kernel's name differ from machine to machine.
    notebook.metadata.clear()
    return notebook


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    for each in NAMES:
        with TemporaryDirectory() as temporary:
            target = ROOT / "examples" / f"{each}.ipynb"
            nbformat.write(executed(each, Path(temporary)), target)
