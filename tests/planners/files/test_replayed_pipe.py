"""Pipes and devices: read once and whole, whatever looks at their first bytes."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from instances.convert.conversion import Conversion, convert
from instances.formats.recorded_trace import write_recorded_trace
from planners import Problem, read_problem, write_problem
from planners.errors import InstanceError
from planners.files import replayed_pipe as module
from tests.fuzz.valid_files import TRACE

PROBLEM = Problem([5, 6], [0, 1], [2, 3], name="p", tensor_name=["a", "b" * 9000])


def as_json(path: Path) -> None:
    write_problem(PROBLEM, path.with_suffix(".json"))
    path.with_suffix(".json").rename(path)


def as_gzipped_json(path: Path) -> None:
    as_json(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def as_recording(path: Path) -> None:
    write_recorded_trace(TRACE, path.with_suffix(".npz"))
    path.with_suffix(".npz").rename(path)


@pytest.fixture
def pipe(tmp_path: Path) -> Callable[[Callable[[Path], None]], Path]:
    """Return what makes a FIFO that gives the bytes of a file once."""

    def make(write: Callable[[Path], None]) -> Path:
        write(tmp_path / "file")
        data = (tmp_path / "file").read_bytes()
        path = tmp_path / "fifo"
        os.mkfifo(path)
        Thread(target=path.write_bytes, args=(data,), daemon=True).start()
        return path

    return make


@pytest.mark.parametrize(
    ("write", "sizes"),
    [(as_json, [5, 6]), (as_gzipped_json, [5, 6]), (as_recording, TRACE.size.tolist())],
)
def test_a_pipe_is_read_as_a_file_is(
    pipe: Callable[[Callable[[Path], None]], Path], write: Callable[[Path], None], sizes: list[int]
) -> None:
    np.testing.assert_array_equal(read_problem(pipe(write)).size, sizes)


def test_a_pipe_is_converted(
    pipe: Callable[[Callable[[Path], None]], Path], tmp_path: Path
) -> None:
    convert(Conversion(pipe(as_recording), tmp_path / "out.txt"))
    assert read_problem(tmp_path / "out.txt").tensor_count == TRACE.request_count


def test_a_message_names_the_pipe(pipe: Callable[[Callable[[Path], None]], Path]) -> None:
    path = pipe(lambda file: file.write_bytes(b'{"format": 3}'))
    with pytest.raises(InstanceError) as raised:
        read_problem(path)
    assert str(raised.value).startswith(f"{path}: field format: ")


def test_a_device_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BINARY_BYTES", 1 << 21)
    with pytest.raises(InstanceError, match="/dev/zero: at most 2097152 bytes are read, found mor"):
        read_problem("/dev/zero")


def test_standard_input_is_read_from_its_first_byte(tmp_path: Path) -> None:
    as_json(tmp_path / "p")
    command = [sys.executable, "-m", "planners.compare", "/dev/stdin", "--planners", "naive"]
    done = subprocess.run(
        command, input=(tmp_path / "p").read_bytes(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_ctrl_c_ends_the_wait_for_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = [sys.executable, "-m", "planners.compare", str(path), "--planners", "naive"]
    environment = os.environ | {"TMPDIR": str(folder)}
    child = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
    # Opening it to write waits for who opens it to read.
    with child, path.open("wb"):
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in said
    assert list(folder.iterdir()) == []
