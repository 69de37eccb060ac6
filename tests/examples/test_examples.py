"""Each example runs, and prints what its section of the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT

EXAMPLES = sorted(ROOT.glob("examples/*.py"))
# The marker of an example that needs an optional package.
MARKS = {
    "does_it_fit": "torch",
    "graphs_that_fit": "torch",
    # Slow tests run where the extra `cluster` is installed.
    "study_on_a_cluster": "slow",
    "train_under_a_plan": "torch",
    "two_memories_of_a_microcontroller": "onnx",
    "within_a_limit": "torch",
}
SECTIONS = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8").split("\n## ")[1:]
OUTPUT = re.compile(r"^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
MOST_LINES = 80


def section_of(example: Path) -> str:
    (section,) = (text for text in SECTIONS if f"python examples/{example.name}\n" in text)
    return section


MARKED = [
    pytest.param(example, marks=[getattr(pytest.mark, mark)] if mark else [], id=example.stem)
    for example in EXAMPLES
    for mark in [MARKS.get(example.stem)]
]


@pytest.mark.parametrize("example", MARKED)
def test_an_example_prints_the_output_of_its_section(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    (shown,) = OUTPUT.findall(section_of(example))
    assert run.stdout.strip() == shown.strip()


@pytest.mark.gpu
def test_a_plan_serves_the_training_on_a_gpu(tmp_path: Path) -> None:
    example = ROOT / "examples" / "train_under_a_plan.py"
    run = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    (planned,) = re.findall(r"^steps +20, (\d+) of them planned", run.stdout, re.MULTILINE)
    assert int(planned) > 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_a_section_includes_its_example_which_is_short(example: Path) -> None:
    assert f"```{{literalinclude}} ../examples/{example.name}\n" in section_of(example)
    assert len(example.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
