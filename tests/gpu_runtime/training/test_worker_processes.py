"""Workers: their environment, their results, how they die, and how Ctrl-C ends them."""

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
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runtime.training import worker_processes
from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_processes import run_worker, worker_environment
from gpu_runtime.training.worker_result import CheckResult, Failure, TimeResult
from instances.extract.eager.trace_settings import TraceSettings
from tests.gpu_runtime.training.worker_results import CHECK, SPECIFICATION
from tests.repository import ROOT

# No GPU in these tests, and no more work than a network of images of 32 pixels.
SMALL = RunSpecification(
    Purpose.CHECK,
    Allocator.DEFAULT,
    "mobilenet-v2",
    {"batch": 2, "image": 32},
    TraceSettings(steps=2, precision="float32", optimizer="sgd"),
    warm_up=1,
    timed_steps=2,
    device="cpu",
)


def run_as_worker(monkeypatch: pytest.MonkeyPatch, code: str) -> object:
    monkeypatch.setattr(worker_processes, "COMMAND", (sys.executable, "-c", code))
    return run_worker(SPECIFICATION)


def test_what_the_user_has_set_does_not_reach_a_worker() -> None:
    users = {
        "PATH": "/bin",
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
        "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
        "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    }
    timed = replace(SPECIFICATION, purpose=Purpose.TIME)
    assert worker_environment(timed, users) == {"PATH": "/bin"}
    planned = replace(timed, allocator=Allocator.PLANNED)
    assert worker_environment(planned, users) == {"PATH": "/bin"}


def test_the_environment_chooses_expandable_segments_and_determinism() -> None:
    expandable = replace(SPECIFICATION, allocator=Allocator.EXPANDABLE)
    assert worker_environment(expandable, {}) == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }


def test_a_worker_gets_its_line_and_its_last_line_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from gpu_runtime.training.run_specification import RunSpecification; "
        "from gpu_runtime.training.worker_result import Failure, write_result; "
        "specification = RunSpecification.from_json(sys.stdin.readline()); print('noise'); "
        "print(write_result(Failure(f'{specification.label} {specification.seed}')))"
    )
    assert run_as_worker(monkeypatch, code) == Failure("check default 7")


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
    assert run_as_worker(monkeypatch, code) == Failure(message)


@pytest.mark.parametrize(
    ("end", "how"), [("sys.exit(3)", "exit code 3"), ("os.abort()", "by SIGABRT")]
)
def test_a_worker_that_dies_after_its_result_has_failed(
    monkeypatch: pytest.MonkeyPatch, end: str, how: str
) -> None:
    def code(result: str) -> str:
        return (
            "import os, sys; from gpu_runtime.training.worker_result import *; "
            f"print(write_result({result}), flush=True); {end}"
        )

    died = Failure(f"the process died after its result, {how}")
    assert run_as_worker(monkeypatch, code("TimeResult((1.0,))")) == died
    assert run_as_worker(monkeypatch, code("Failure('no memory')")) == Failure("no memory")


@pytest.mark.parametrize("ignores", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_ctrl_c_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ignores: str
) -> None:
    monkeypatch.setattr(worker_processes, "SECONDS_TO_END", 0.5)
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
        run_as_worker(monkeypatch, code)
    thread.join()
    assert running.is_set()
    assert not is_running(Path("/proc", told.read_text().strip()))


def test_a_parent_that_is_killed_takes_its_worker_along() -> None:
    # Its standard input stays open in this process: only the parent's death can end the worker.
    read, write = os.pipe()
    parent_code = (
        "import time; from gpu_runtime.training.worker_processes import COMMAND, child_process; "
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
def test_a_real_worker_checks_and_times() -> None:
    check = run_worker(SMALL)
    assert isinstance(check, CheckResult), check
    assert len(check.losses) == len(check.gradients) == 2
    assert len(check.gradients[0]) == len(check.parameters) == 158
    assert any(name.endswith("running_mean") for name in check.buffers)
    assert check == run_worker(replace(SMALL, allocator=Allocator.EXPANDABLE))
    timed = run_worker(replace(SMALL, purpose=Purpose.TIME))
    assert isinstance(timed, TimeResult), timed
    assert len(timed.step_seconds) == 2
    assert timed.peaks is None


@pytest.mark.torch
@pytest.mark.parametrize(
    ("specification", "failure"),
    [
        (replace(SMALL, model="mobilenet-v3"), Failure(
            "no model is called 'mobilenet-v3'; did you mean 'mobilenet-v2' or "
            "'mobilenet-v2-quant'?")),
        (replace(SMALL, device="cuda"), Failure(
            "PyTorch finds no CUDA device; training under a plan needs one", is_general=True)),
    ],
    ids=["model", "device"],
)  # fmt: skip
def test_a_real_worker_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, specification: RunSpecification, failure: Failure
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert run_worker(specification) == failure


@pytest.mark.torch
def test_any_exception_of_a_run_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training import check_run
    from gpu_runtime.training.worker import result_of

    def raise_(error: Exception) -> Callable[..., None]:
        def run(*_: object) -> None:
            raise error

        return run

    for error, message in (
        (torch.OutOfMemoryError("CUDA out of memory. Tried to\nand advice"),
         "out of memory: CUDA out of memory. Tried to"),
        (RuntimeError("  two   words\nC++ stack"), "RuntimeError: two words"),
        (ValueError(), "ValueError: no message"),
        (check_run.UndeterminedError("put_"), "put_ has no deterministic algorithm"),
    ):  # fmt: skip
        monkeypatch.setattr(check_run, "run_check", raise_(error))
        result = result_of(SMALL)
        assert isinstance(result, Failure)
        assert result.message == message
        assert result.undetermined == ("put_" if "put_" in message else "")
        assert not result.is_general


def test_without_torch_a_worker_says_so() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; "
        "from gpu_runtime.training.worker import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        input=SMALL.to_json() + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"is_general": true' in result.stdout
    assert "needs torch" in result.stdout
    assert result.stderr == ""


def test_the_result_of_a_check_survives_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    big = replace(CHECK, parameters={f"layer.{number}": "ab" * 32 for number in range(5000)})
    code = (
        "from dataclasses import replace; "
        "from gpu_runtime.training.worker_result import write_result; "
        "from tests.gpu_runtime.training.worker_results import CHECK; "
        "print(write_result(replace(CHECK, parameters="
        "{f'layer.{number}': 'ab' * 32 for number in range(5000)})))"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert run_as_worker(monkeypatch, code) == big
