"""The part on a user's own model of the page on recording: its commands run on its files."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from planners.files.problem_file import read_gapless_json
from tests.repository import ROOT

pytestmark = pytest.mark.torch

PAGE = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8").split("\n## ")[1]
# Not run as those of other pages are: they need PyTorch.
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^    (python -m .*)$", PAGE, re.M)]


def run(folder: Path, arguments: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    *script, models = BLOCKS
    (tmp_path / "my_script.py").write_text("\n\n".join(script), encoding="utf-8")
    (tmp_path / "my_models.py").write_text(models, encoding="utf-8")
    without_gpu = [words for words in COMMANDS if "gpu_runtime.train" not in words]
    assert len(without_gpu) == len(COMMANDS) - 1 == 5
    for words in without_gpu:
        if "planners.compare" not in words:
            run(tmp_path, words)
    compared = run(
        tmp_path, ["-m", "planners.compare", "step.json.gz", "run.npz", "--planners", "greedy*"]
    )
    assert "greedy-size-first" in compared
    loop = ["-m", "instances.extract", "my_script.py:make_loop", "-o", "loop.json"]
    assert "tensors" in run(tmp_path, loop)
    problem = read_gapless_json(tmp_path / "step.json.gz")
    assert problem.tensor_name is not None
    (example,) = re.findall(r"Network\.layers\.0\.addmm_\d+", PAGE)
    assert example in problem.tensor_name
    assert problem.origin["model"] == "my_script.py:make_step"
