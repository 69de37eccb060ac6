"""The notebooks have the code of their examples, and run to the outputs that they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["fragmentation_of_a_snapshot", "heuristic_against_the_optimum"])
def test_a_notebook_is_its_example_and_runs(name: str, tmp_path: Path) -> None:
    import nbformat

    from tests.examples.notebooks import NAMES, executed

    assert name in NAMES
    assert len(NAMES) == 2
    committed = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    assert committed.cells == executed(name, tmp_path).cells
