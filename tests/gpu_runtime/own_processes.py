"""Programs of the tests, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.repository import ROOT

SECONDS = 500


def outputs_of(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Run modules at the same time; return what each printed, and said on stderr."""
    begun = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", *command],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    try:
        ended = [process.communicate(timeout=SECONDS) for process in begun]
    finally:
        for process in begun:
            process.kill()
    for command, process, (_, errors) in zip(commands, begun, ended, strict=True):
        assert process.returncode == 0, f"{' '.join(command)}: {errors}"
    return ended


def answer_of(module: str, *arguments: str, **environment: str) -> Any:
    """Run a program; return the last line that it prints, which is JSON."""
    # What deterministic algorithms ask of cuBLAS.
    cublas = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    ((said, _),) = outputs_of([[module, *arguments]], cublas | environment)
    return json.loads(said.splitlines()[-1])
