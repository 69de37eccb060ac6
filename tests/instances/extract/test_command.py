"""``python -m instances.extract``: what it says without torch, and of mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from instances.extract.__main__ import app as extract_app
from instances.extract.models import find_model
from instances.extract.record.recording import extract
from instances.extract.trace_command import app as trace_app
from planners.command_line.typer_frame import CommandLine
from tests.command_line import require_one_line, run_command


@pytest.mark.parametrize("words", [[], ["trace"]], ids=["extract", "trace"])
def test_a_missing_torch_names_the_extra(words: list[str], tmp_path: Path) -> None:
    # An entry of None makes the import fail as if the package were not installed.
    code = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['transformers'] = None; "
        "runpy.run_module('instances.extract', run_name='__main__')"
    )
    output = tmp_path / ("out.npz" if words else "out.json")
    command = [sys.executable, "-c", code, *words, "bert-base", "-o", str(output)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "needs torch" in result.stderr
    assert result.stderr.endswith(": pip install 'gapless[torch]'\n")
    assert result.stderr.count("\n") == 1
    assert not output.exists()


@pytest.mark.parametrize(
    ("app", "arguments", "message"),
    [
        (extract_app, ["bert-bse"], "no model is called 'bert-bse'; did you mean 'bert-base'"),
        (extract_app, ["bert-base", "--batch", 0], "setting batch: at least 1, found 0"),
        (trace_app, ["bert-bse"], "no model is called 'bert-bse'; did you mean 'bert-base'"),
        (trace_app, ["bert-base", "--microbatches", 0], "microbatches: at least 1, found 0"),
        (trace_app, ["bert-base", "--steps", 0], "setting steps: at least 1, found 0"),
        (trace_app, ["bert-base", "--precision", "bfloat"], "no precision is called 'bfloat'; did"),
        (trace_app, ["bert-base", "--optimizer", "adam"], "no optimizer is called 'adam'; did you"),
        (trace_app, ["bert-base", "--image", 8], "setting image: bert-base does not have it"),
        (trace_app, ["bert-base", "--device", "gpu"], "no device is called 'gpu'"),
        (trace_app, ["bert-base", "-o", "trace.txt"], "trace.txt: a trace is written as .npz"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    app: CommandLine, arguments: list[object], message: str, tmp_path: Path
) -> None:
    output = tmp_path / ("out.npz" if app is trace_app else "out.json")
    require_one_line(run_command(app, "-o", output, *arguments), message)
    assert not output.exists()


@pytest.mark.torch
def test_an_unknown_optimizer_lists_what_is_near(tmp_path: Path) -> None:
    result = run_command(
        extract_app, "bert-base", "--optimizer", "adam", "-o", tmp_path / "out.json"
    )
    require_one_line(result, "no optimizer is called 'adam'; did you mean 'adamw'?")


@pytest.mark.torch
def test_an_extraction_says_what_it_does() -> None:
    stages: list[str] = []
    model = find_model("mobilenet-v2")
    problem = extract("mobilenet-v2", model.settings(mode="inference"), stages.append)
    assert problem.tensor_count
    assert [stage.partition(" ")[0] for stage in stages] == ["mobilenet-v2:"] * 3
    assert stages[0].endswith("importing PyTorch")


def test_neither_command_imports_torch_for_its_help() -> None:
    code = (
        "import json, sys, instances.extract.__main__, instances.extract.record.recording; "
        "print(json.dumps(sorted(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"torch", "transformers"} & set(json.loads(result.stdout))
