"""The commands, given a function of a user's or a file that registers models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpu_runtime.train import require_sound
from gpu_runtime.training.run_processes import answer_of
from gpu_runtime.training.run_result import Failure
from gpu_runtime.training.training_run import Purpose, RegisteredModel, TrainingRun, model_run
from instances.extract.__main__ import extract_model
from instances.extract.models import MODELS
from instances.extract.models.model_registry import register_own_models
from instances.extract.trace_command import trace
from instances.formats.recorded_trace import read_recorded_trace_file
from planners.errors import InstanceError
from tests.instances.extract.own.user_scripts import LOOP, MODEL, STEP, written


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)


@pytest.mark.torch
def test_the_file_says_what_was_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name, output = f"{written(tmp_path, LOOP)}:make_step", tmp_path / "step.json"
    extract_model(name, output, set_=["batch=4"], streams="category", nodes_per_stream=20)
    origin = json.loads(output.read_text(encoding="utf-8"))["origin"]
    assert origin["command"] == (
        "python -m instances.extract my_script.py:make_step --set batch=4 "
        "--streams category --nodes-per-stream 20"
    )
    trace(name, tmp_path / "run.npz", steps=2)
    assert read_recorded_trace_file(tmp_path / "run.npz").iteration_count == 2
    # What the loop prints is no part of the answer.
    shown = capfd.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert "loss 0.500" in shown.err


@pytest.mark.torch
@pytest.mark.parametrize("command", [extract_model, trace])
@pytest.mark.parametrize("is_model", [False, True])
def test_nothing_but_an_answer_is_an_answer(tmp_path: Path, command: Any, is_model: bool) -> None:
    """A file that ends its process with 0 has made nothing."""
    path, output = written(tmp_path, "import os; os._exit(0)"), tmp_path / "step.json"
    name, models = ("bert-base", [path]) if is_model else (f"{path}:make_step", None)
    with pytest.raises(InstanceError, match="its process ended with exit status 0 before it answ"):
        command(name, output, models=models)
    assert not output.exists()


@pytest.mark.parametrize(
    ("is_own", "options", "said"),
    [
        (True, {"batch": 3}, "--batch: {name} decides this itself; make it a parameter of the "
         "function and give --set batch=3"),
        (True, {"checkpointing": True}, "--checkpointing: "),
        (False, {"set_": ["batch=3"]}, "--set batch=3: parameters are those of FILE.py"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("command", "output"), [(extract_model, "o.json"), (trace, "o.npz")])
def test_options_of_the_other_kind_are_refused(
    command: Any, output: str, is_own: bool, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    name = f"{written(tmp_path, STEP)}:make_step" if is_own else "bert-base"
    with pytest.raises(InstanceError) as raised:
        command(name, tmp_path / output, **options)
    assert str(raised.value).startswith(said.format(name=name))


@pytest.mark.torch
def test_a_file_registers_models_for_both_commands(tmp_path: Path) -> None:
    path = written(tmp_path, MODEL, "my_models.py")
    extract_model("small-bert", tmp_path / "small.json", batch=3, models=[path])
    assert "small-bert" not in MODELS
    trace("small-bert", tmp_path / "small.npz", models=[path])
    assert read_recorded_trace_file(tmp_path / "small.npz").iteration_count == 3


def test_a_file_that_fails_registers_nothing(tmp_path: Path) -> None:
    registers = (
        "from instances.extract.models import register\n"
        "@register('mine', 'mine')\ndef build(settings): ...\n"
    )
    path = written(tmp_path, f"{registers}1 / 0\n")
    with pytest.raises(InstanceError, match=rf"{path}:4: ZeroDivisionError"):
        register_own_models([path])
    assert "mine" not in MODELS
    path = written(tmp_path, "x = 1\n", "empty.py")
    with pytest.raises(InstanceError, match="it registers no model"):
        register_own_models([path])


def test_training_wants_a_registered_model(tmp_path: Path) -> None:
    name = f"{written(tmp_path, STEP)}:make_step"
    with pytest.raises(InstanceError, match="register a model in the file and give it by --models"):
        require_sound(*_run_of(RegisteredModel(name)))


@pytest.mark.torch
def test_a_worker_trains_a_model_of_a_file(tmp_path: Path) -> None:
    files = (str(written(tmp_path, MODEL, "my_models.py")),)
    run, model = _run_of(RegisteredModel("small-bert", files=files))
    require_sound(run, model)
    assert not isinstance(answer_of(run), Failure)
    assert f"--models {tmp_path}" in model.arguments


def _run_of(model: RegisteredModel) -> tuple[TrainingRun, RegisteredModel]:
    run = model_run(Purpose.TIME, model)
    return replace(run, warm_up=6, turn_steps=1, device="cpu"), model
