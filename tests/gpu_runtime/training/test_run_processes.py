"""The processes of a run: environment, answers, turns, how they die, and how Ctrl-C ends them."""

from __future__ import annotations

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpu_runtime.training import run_processes
from gpu_runtime.training.run_processes import answer_of, waiting_run, worker_environment
from gpu_runtime.training.run_result import Answer, Failure, RunResult
from gpu_runtime.training.training_run import (
    Allocator,
    Purpose,
    RegisteredModel,
    TrainingRun,
    model_run,
)
from instances.extract.record.trace_settings import TraceSettings
from planners.processes import asked_process
from tests.gpu_runtime.training.run_results import CHECK, MODEL
from tests.repository import ROOT

# No GPU in these tests, and no more work than a network of images of 32 pixels.
SMALL_MODEL = RegisteredModel(
    "mobilenet-v2",
    {"batch": 2, "image": 32},
    TraceSettings(steps=2, precision="float32", optimizer="sgd"),
)
SMALL = replace(model_run(Purpose.CHECK, SMALL_MODEL), device="cpu")
TIMED = replace(
    model_run(Purpose.TIME, SMALL_MODEL), warm_up=1, turns=2, turn_steps=1, device="cpu"
)
CHECKED = replace(model_run(Purpose.CHECK, MODEL), seed=7)


def run_code(monkeypatch: pytest.MonkeyPatch, code: str, run: TrainingRun = CHECKED) -> Answer:
    monkeypatch.setattr(run_processes, "COMMAND", (sys.executable, "-c", code))
    return answer_of(run)


def test_settings_of_the_user_do_not_reach_a_worker() -> None:
    users = {
        "PATH": "/bin",
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
        "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
        "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    }
    left = {"PATH": "/bin", "TORCHINDUCTOR_DETERMINISTIC": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert worker_environment(TIMED, users) == left
    assert worker_environment(replace(TIMED, allocator=Allocator.PLANNED), users) == left


def test_the_environment_chooses_expandable_segments_and_determinism() -> None:
    expandable = worker_environment(replace(CHECKED, allocator=Allocator.EXPANDABLE), {})
    assert expandable["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert expandable["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert expandable["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


@pytest.mark.parametrize("ranks", [1, 2])
def test_one_process_sees_one_gpu_and_several_see_all_and_where_they_meet(
    monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    code = (
        "import json, os, sys; its = json.loads(sys.stdin.readline()); "
        "names = ('CUDA_VISIBLE_DEVICES', 'GAPLESS_MEETING'); "
        "found = [str(os.environ.get(name)).partition('///')[0] for name in names]; "
        "print(json.dumps({'type': 'failure', 'message': ' '.join([str(its['rank']), *found])}))"
    )
    seen = {1: "0 2 None", 2: "0 2,3 file:"}
    assert run_code(monkeypatch, code, replace(CHECKED, ranks=ranks)) == Failure(seen[ranks])


def test_a_worker_gets_its_line_and_its_last_line_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from gpu_runtime.training.training_run import TrainingRun; "
        "from gpu_runtime.training.run_result import Failure, write_answer; "
        "run = TrainingRun.from_json(sys.stdin.readline()); print('noise'); "
        "print(write_answer(Failure(f'{run.label} {run.seed}')))"
    )
    assert run_code(monkeypatch, code) == Failure("check default 7")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit(3)", "the process died without a result, exit code 3"),
        ("print('{}')", "the process died without a result, exit code 0"),
        ("import os; os.abort()", "the process died without a result, by SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", "the process died without a result, by SIGKILL"),
        ("raise ValueError('of all things')",
         "the process died without a result, exit code 1: ValueError: of all things"),
    ],
)  # fmt: skip
def test_a_worker_that_dies_is_one_line(
    monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    assert run_code(monkeypatch, code) == Failure(message)


@pytest.mark.parametrize(
    ("end", "how"), [("sys.exit(3)", "exit code 3"), ("os.abort()", "by SIGABRT")]
)
def test_a_worker_that_dies_after_its_result_has_failed(
    monkeypatch: pytest.MonkeyPatch, end: str, how: str
) -> None:
    def code(result: str) -> str:
        return (
            "import os, sys; from gpu_runtime.training.run_result import *; "
            f"print(write_answer({result}), flush=True); {end}"
        )

    died = Failure(f"the process died after its result, {how}")
    assert run_code(monkeypatch, code("RunResult()")) == died
    assert run_code(monkeypatch, code("Failure('no memory')")) == Failure("no memory")


@pytest.mark.parametrize("ignores", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_ctrl_c_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ignores: str
) -> None:
    monkeypatch.setattr(asked_process, "SECONDS_TO_END", 0.5)
    told = tmp_path / "pid"
    code = (
        f"import os, pathlib, signal, time; {ignores}"
        f"pathlib.Path({str(told)!r}).write_text(f'{{os.getpid()}}\\n'); time.sleep(600)"
    )
    running = threading.Event()

    def press() -> None:
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"))
        running.set()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_code(monkeypatch, code)
    thread.join()
    assert running.is_set()
    assert not is_running(Path("/proc", told.read_text().strip()))


@pytest.mark.torch  # without PyTorch a worker ends before it reads
def test_a_parent_that_is_killed_takes_its_worker_along() -> None:
    # Its standard input stays open in this process: only the parent's death can end the worker.
    read, write = os.pipe()
    parent_code = (
        "import time; from gpu_runtime.training.run_processes import COMMAND; "
        "from planners.processes import child_process; "
        f"worker = child_process.start(COMMAND, stdin={read}); print(worker.pid, flush=True); "
        "time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", parent_code], stdout=subprocess.PIPE, text=True, pass_fds=[read]
    )
    try:
        assert parent.stdout is not None
        worker = Path("/proc", parent.stdout.readline().strip())
        # Half a line: the worker takes it, and waits for more. Its parent counts by then.
        os.write(write, b"{")
        wait_until(lambda: unread_bytes(read) == 0)
        parent.kill()
        parent.wait()
        wait_until(lambda: not is_running(worker))
    finally:
        parent.kill()
        parent.communicate()
        # A worker that is left then reads the end of its line.
        os.close(read)
        os.close(write)


def is_running(process: Path) -> bool:
    try:
        return (process / "stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def unread_bytes(descriptor: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.torch
def test_real_processes_check_and_take_their_turns() -> None:
    check = answer_of(SMALL)
    assert isinstance(check, RunResult), check
    assert len(check.losses) == len(check.gradients) == 2
    assert len(check.gradients[0]) == len(check.parameters) == 158
    assert any(name.endswith("running_mean") for name in check.buffers)
    assert check == answer_of(replace(SMALL, allocator=Allocator.EXPANDABLE))
    timed = answer_of(TIMED)
    assert isinstance(timed, RunResult), timed
    assert [len(turn) for turn in timed.step_seconds] == [1, 1]
    assert (timed.peaks, timed.losses, timed.parameters) == (None, (), {})


@pytest.mark.torch
@pytest.mark.parametrize(
    ("run", "failure"),
    [
        (replace(SMALL, model=RegisteredModel("mobilenet-v3")), Failure(
            "no model is called 'mobilenet-v3'; did you mean 'mobilenet-v2'?")),
        (replace(SMALL, device="cuda"), Failure(
            "PyTorch finds no CUDA device; training under a plan needs one", is_general=True)),
        (replace(SMALL, entry="peft_of_another_world:train"), Failure(
            "ModuleNotFoundError: No module named 'peft_of_another_world'")),
    ],
    ids=["model", "device", "module"],
)  # fmt: skip
def test_a_real_worker_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, run: TrainingRun, failure: Failure
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert answer_of(run) == failure


@pytest.mark.torch
def test_any_exception_of_a_run_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training import program_run
    from gpu_runtime.training.determinism import UndeterminedError
    from gpu_runtime.training.worker import answer_to

    def raise_(error: Exception) -> Callable[..., None]:
        def run(*_: object) -> None:
            raise error

        return run

    for error, message in (
        (torch.OutOfMemoryError("CUDA out of memory. Tried to\nand advice"),
         "out of memory: CUDA out of memory. Tried to"),
        (RuntimeError("  two   words\nC++ stack"), "RuntimeError: two words"),
        (ValueError(), "ValueError: no message"),
        (UndeterminedError("put_"), "put_ has no deterministic algorithm"),
    ):  # fmt: skip
        monkeypatch.setattr(program_run, "run_program", raise_(error))
        answer = answer_to(SMALL.to_json())
        assert isinstance(answer, Failure)
        assert answer.message == message
        assert answer.undetermined == ("put_" if "put_" in message else "")
        assert not answer.is_general


def test_without_torch_a_worker_says_so() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; "
        "from gpu_runtime.training.worker import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        input=SMALL.to_json() + "\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert '"is_general":true' in result.stdout
    assert "needs torch" in result.stdout
    assert result.stderr == ""


def test_the_result_of_a_check_survives_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    big = replace(CHECK, parameters={f"layer.{number}": "ab" * 32 for number in range(5000)})
    code = (
        "from msgspec.structs import replace; "
        "from gpu_runtime.training.run_result import write_answer; "
        "from tests.gpu_runtime.training.run_results import CHECK; "
        "print(write_answer(replace(CHECK, parameters="
        "{f'layer.{number}': 'ab' * 32 for number in range(5000)})))"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert run_code(monkeypatch, code) == big


def test_a_process_that_goes_on_for_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import time; time.sleep(600)"
    monkeypatch.setattr(run_processes, "COMMAND", (sys.executable, "-c", code))
    with waiting_run(replace(CHECKED, limit_seconds=0.2)) as processes:
        processes.begin()
        assert processes.answer() == Failure("the process did not end within 0.2 s")


WAITS = "print('waits', flush=True)"
TOLD = "rank = f'rank {rank} {sys.stdin.readline().strip()}'"
FAILS = "print(json.dumps({'type': 'failure', 'message': str(rank)}))"


@pytest.mark.parametrize(
    ("by_rank", "turns", "message"),
    [
        ([[FAILS]], 0, "0"),
        ([[WAITS, TOLD, FAILS]], 1, "rank 0 go on"),
        ([[WAITS, TOLD, WAITS, TOLD, FAILS]], 2, "rank rank 0 go on go on"),
        ([[WAITS, TOLD, "sys.exit(3)"]], 1, "the process died without a result, exit code 3"),
        ([[WAITS, TOLD, WAITS, TOLD], [WAITS, TOLD, FAILS]], 1, "rank 1 go on"),
    ],
)
def test_processes_wait_for_each_turn(
    monkeypatch: pytest.MonkeyPatch, by_rank: list[list[str]], turns: int, message: str
) -> None:
    code = "import json, sys\nrank = json.loads(sys.stdin.readline())['rank']"
    for rank, lines in enumerate(by_rank):
        code += "\n ".join([f"\nif rank == {rank}:", *lines])
        code += "\n sys.exit()"
    monkeypatch.setattr(run_processes, "COMMAND", (sys.executable, "-c", code))
    with waiting_run(replace(TIMED, ranks=len(by_rank))) as processes:
        processes.begin()
        for _ in range(turns):
            assert processes.wait_for_pause() is None
            processes.go_on()
        assert processes.wait_for_pause() == Failure(message)


def test_a_process_that_hangs_in_its_turn_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, time; sys.stdin.readline(); print('waits', flush=True); time.sleep(600)"
    monkeypatch.setattr(run_processes, "COMMAND", (sys.executable, "-c", code))
    with waiting_run(replace(TIMED, limit_seconds=2.0)) as processes:
        processes.begin()
        assert processes.wait_for_pause() is None
        processes.go_on()
        found = processes.wait_for_pause()
        assert found == Failure("the process did not end its turn within 2 s")
