"""``python -m instances.extract``: what it says without torch, and of mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from instances.extract.extraction import extract
from instances.extract.models import find_model


def run_without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    # An entry of None makes the import fail as if the package were not installed.
    blocked = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['transformers'] = None; "
        f"sys.argv = ['extract', *{list(arguments)!r}]; "
        "runpy.run_module('instances.extract', run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=False
    )


def test_help_needs_no_torch() -> None:
    result = run_without_torch("--help")
    assert result.returncode == 0
    assert "--nodes-per-stream" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bert-base"], "needs torch"),
        (["bert-bse"], "no model is called 'bert-bse'; did you mean 'bert-base'"),
        (["bert-base", "--batch", "0"], "setting batch: at least 1, found 0"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    output = tmp_path / "out.json"
    result = run_without_torch(*arguments, "-o", str(output))
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not output.exists()


def test_a_missing_torch_names_the_extra(tmp_path: Path) -> None:
    result = run_without_torch("bert-base", "-o", str(tmp_path / "out.json"))
    assert "pip install 'gapless[torch]'" in result.stderr


@pytest.mark.torch
def test_an_unknown_optimizer_lists_what_is_near(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "instances.extract", "bert-base", "--optimizer", "adam"]
    result = subprocess.run(
        [*command, "-o", str(tmp_path / "out.json")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "no optimizer is called 'adam'; did you mean 'adamw'?" in result.stderr


@pytest.mark.torch
def test_an_extraction_says_what_it_does() -> None:
    stages: list[str] = []
    model = find_model("mobilenet-v2")
    problem = extract("mobilenet-v2", model.settings(mode="inference"), stages.append)
    assert problem.tensor_count
    assert [stage.partition(" ")[0] for stage in stages] == ["mobilenet-v2:"] * 3
    assert stages[0].endswith("importing PyTorch")


def test_importing_instances_imports_no_torch() -> None:
    code = (
        "import json, sys, instances, instances.extract, instances.extract.extraction; "
        "print(json.dumps(sorted(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"torch", "transformers"} & set(json.loads(result.stdout))
