"""Commands whose standard output cannot be written: one line or none, and the exit code of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planners import Problem, write_problem


@pytest.fixture
def commands(tmp_path: Path) -> list[str]:
    path = tmp_path / "one.json"
    write_problem(Problem([8], [0], [1], name="one tensor"), path)
    return [
        "planners.compare --list", f"gpu_runtime.verify {path}",
        f"planners.compare {path} --planners naive", "instances list bert",
        f"planners.homosize {path}",
    ]  # fmt: skip


def run(command: str, redirection: str) -> subprocess.CompletedProcess[str]:
    line = f"{sys.executable} -m {command} {redirection}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("which", range(5))
def test_a_disk_that_is_full_is_one_line(commands: list[str], which: int) -> None:
    ended = run(commands[which], ">/dev/full")
    assert ended.stderr == "error: standard output cannot be written: No space left on device\n"
    assert ended.returncode == 2


@pytest.mark.parametrize("which", range(5))
def test_a_closed_output_is_nobody_who_reads(commands: list[str], which: int) -> None:
    ended = run(commands[which], ">&-")
    assert ended.stderr == ""
    assert ended.returncode == 141


@pytest.mark.parametrize(
    ("encoding", "option", "letters"),
    [
        ("ascii", "--csv", "b\\xe4r"),
        ("ascii", "--json", "b\\u00e4r"),
        ("utf-8", "--csv", "b\u00e4r"),
    ],
)
def test_letters_that_the_output_has_not_are_escaped(
    tmp_path: Path, encoding: str, option: str, letters: str
) -> None:
    path = tmp_path / "\udcff.json"
    write_problem(Problem([8], [0], [1], name="b\u00e4r"), path)
    ended = subprocess.run(
        [sys.executable, "-m", "planners.compare", path, "--planners", "naive", option],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout.decode(encoding)
    assert letters in said
    assert "\\udcff.json" in said
