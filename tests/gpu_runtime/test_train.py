"""``python -m gpu_runtime.train``: options, output, exit codes; the workers are stand-ins."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as changed

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from gpu_runtime import train
from gpu_runtime.training.run_processes import RunProcesses
from gpu_runtime.training.run_result import Answer, Failure
from gpu_runtime.training.training_run import TrainingRun
from planners.processes import standard_output
from tests.gpu_runtime.training.run_results import CHECK, PLAN, planned_check, succeed

Worker = Callable[[TrainingRun], Answer]


class StandIn(RunProcesses):
    """A process that waits for all its turns and then answers."""

    def __init__(self, run: TrainingRun, worker: Worker) -> None:
        super().__init__((), ())
        self._run, self._worker = run, worker

    def wait_for_pause(self) -> None:
        """Wait no time."""

    def answer(self) -> Answer:
        return self._worker(self._run)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command with workers that end at once."""
    # The extra need not be installed for what is tested here.
    monkeypatch.setattr(train, "find_spec", lambda _: object())

    def run(*arguments: str, worker: Worker = succeed) -> Result:
        @contextmanager
        def start(run: TrainingRun) -> Iterator[RunProcesses]:
            yield StandIn(run, worker)

        monkeypatch.setattr(train, "waiting_run", start)
        return CliRunner().invoke(train.app, ["bert-base", *arguments])

    return run


def test_equal_bits_exit_0(command: Callable[..., Result]) -> None:
    result = command()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["allocator", "requested"]
    assert [line[3:].split()[0] for line in lines[1:4]] == ["default", "expandable", "planned"]
    assert lines[4].startswith("memory in GiB, ")
    assert lines[-1].startswith("bit-identical: 4 losses, ")
    assert result.stderr == ""
    assert "\x1b" not in result.stdout


def test_json_is_one_object(command: Callable[..., Result]) -> None:
    record = json.loads(command("--json", "--batch", "4", "--no-checkpointing").stdout)
    assert record["shape"] == {"batch": 4, "checkpointing": False}
    assert record["passed"] is True
    assert record["planner"] == "auto"
    assert set(record["timings"]) == {"default", "expandable", "planned"}


def test_every_option_reaches_the_workers(command: Callable[..., Result]) -> None:
    runs: list[TrainingRun] = []

    def worker(run: TrainingRun) -> Answer:
        runs.append(run)
        return succeed(run)

    command(
        "--planner", "pressure", "--steps", "7", "--timed-steps", "40", "--warm-up", "9",
        "--time-limit", "2.5", "--seed", "3", "--seq", "64", "--layers", "2", "--turns", "5",
        "--microbatches", "4", "--precision", "bfloat16", "--optimizer", "sgd",
        "--allocators", "planned,default", worker=worker,
    )  # fmt: skip
    assert [run.label for run in runs] == [
        "check planned", "check default", "time planned", "time default",
    ]  # fmt: skip
    check, _, timed, _ = runs
    assert (timed.warm_up, timed.turns, timed.turn_steps) == (9, 5, 8)
    assert (check.steps, check.turns) == (7, 0)
    for run in runs:
        assert (run.planner, run.time_limit, run.seed, run.device) == ("pressure", 2.5, 3, "cuda")
        assert run.planning == "between"
        assert run.model is not None
        assert run.model.arguments == (
            "bert-base --seq 64 --layers 2 --microbatches 4 --precision bfloat16 --optimizer sgd"
        )


def test_other_bits_exit_1(command: Callable[..., Result]) -> None:
    def worker(run: TrainingRun) -> Answer:
        if run.label == "check planned":
            return replace(planned_check(), losses=(("0x1p+0", "0x1p+0"), CHECK.losses[1]))
        return succeed(run)

    result = command(worker=worker)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith(
        "planned differs from default first in step 1, loss of microbatch 1: 0x1p+0, not 0x1.0p+3"
    )


def test_a_plan_that_served_no_step_exits_1(command: Callable[..., Result]) -> None:
    def worker(run: TrainingRun) -> Answer:
        if run.label == "check planned":
            return replace(CHECK, plan=changed(PLAN, planned_steps=0))
        return succeed(run)

    result = command("--steps", "3", worker=worker)
    assert result.exit_code == 1
    assert "no step was served by the plan: planning begins after the third step" in result.stdout


def test_a_worker_that_fails_exits_2_after_the_rest(command: Callable[..., Result]) -> None:
    def worker(run: TrainingRun) -> Answer:
        return Failure("out of memory: much") if run.label == "time default" else succeed(run)

    result = command(worker=worker)
    assert result.exit_code == 2
    assert "error: time default: out of memory: much\n" in result.stderr
    assert "bit-identical: " in result.stdout
    assert "\n*  planned " in result.stdout


def test_ctrl_c_prints_results_so_far(command: Callable[..., Result]) -> None:
    def worker(run: TrainingRun) -> Answer:
        if run.label == "time planned":
            raise KeyboardInterrupt
        return succeed(run)

    result = command(worker=worker)
    assert result.exit_code == 130
    assert "default" in result.stdout
    assert "bit-identical: " in result.stdout
    assert result.stderr.endswith("interrupted\n")


def test_a_closed_reader_is_not_an_error(
    command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(_text: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(standard_output, "write", leave)
    monkeypatch.setattr(standard_output, "abandon", lambda: None)
    result = command()
    assert result.exit_code == 141
    assert "error" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--planner", "naiv"], "no planner matches 'naiv'; did you mean 'naive'?"),
        (["--planner", "greedy-*"], "one planner is needed, found 8 by 'greedy-*'"),
        (["--steps", "0"], "setting steps: at least 1, found 0"),
        (["--warm-up", "5"], "--warm-up: at least 6 is needed, found 5"),
        (["--timed-steps", "0"], "--timed-steps: at least 1 is needed, found 0"),
        (["--seed", "-1"], "--seed: 0 to 2**31 - 1 is needed, found -1"),
        (["--seed", str(1 << 64)], "--seed: 0 to 2**31 - 1 is needed, found 18446744073709551616"),
        (["--time-limit", "0"], "--time-limit: more than 0 seconds is needed, found 0.0"),
        (["--time-limit", "nan"], "--time-limit: more than 0 seconds is needed, found nan"),
        (["--turns", "7"], "--turns: 30 timed steps are to be split evenly, found 7"),
        (["--image", "8"], "setting image: bert-base does not have it"),
        (["--optimizer", "adam"], "setting optimizer: no optimizer is called 'adam'"),
        (["--allocators", "plan"], "--allocators: none is called 'plan'; did you mean 'planned'"),
        (["--allocators", "default,default"], "--allocators: each once is enough, found"),
    ],
)
def test_a_mistake_is_one_line_and_exits_2(
    command: Callable[..., Result], arguments: list[str], message: str
) -> None:
    result = command(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}"), result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_model_of_several_ranks_is_refused_before_it_is_built() -> None:
    result = CliRunner().invoke(train.app, ["qwen2-moe"])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error: model qwen2-moe: training computes models of one rank, found 4 ranks"
    )


def run_without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    # An entry of None makes the package look as if it were not installed.
    code = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['transformers'] = None; "
        f"sys.argv = ['train', *{list(arguments)!r}]; "
        "runpy.run_module('gpu_runtime.train', run_name='__main__', alter_sys=True)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_needs_no_torch() -> None:
    result = run_without_torch("--help")
    assert result.returncode == 0
    assert "--timed-steps" in result.stdout


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("bert-base", "training needs torch: pip install 'gapless[torch]'"),
        ("bert-bse", "no model is called 'bert-bse'; did you mean 'bert-base'"),
    ],
)
def test_without_torch_there_is_one_line(model: str, message: str) -> None:
    result = run_without_torch(model)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {message}"), result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_gpu_the_first_worker_ends_the_command(command: Callable[..., Result]) -> None:
    asked: list[str] = []

    def worker(run: TrainingRun) -> Answer:
        asked.append(run.label)
        return Failure("PyTorch finds no CUDA device", is_general=True)

    result = command(worker=worker)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: PyTorch finds no CUDA device\n"
    assert asked == ["check default"]
