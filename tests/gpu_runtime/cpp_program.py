"""C++ of the tests, compiled by the machine's compiler."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.repository import ROOT

CORE = ROOT / "gpu_runtime" / "core" / "src"
# Where the core finds what it shares with the decorator of PyTorch's allocator.
DECORATOR = ROOT / "gpu_runtime" / "allocator" / "pytorch"


# Kept so long as the process runs, and removed with it.
_folders: list[TemporaryDirectory[str]] = []


def new_folder() -> Path:
    """Return a folder that is removed when this process ends."""
    _folders.append(TemporaryDirectory(prefix="gapless-tests-"))
    return Path(_folders[-1].name)


def compile_cpp(
    name: str,
    sources: Sequence[Path],
    options: Sequence[str],
    libraries: Sequence[str] = (),
    *,
    headers: Sequence[Path] = (),
) -> Path:
    """Compile C++ that finds the headers of the runtime's core, and return what was made.

    Headers in ``headers`` are found before those.
    """
    made = new_folder() / name
    folders = [f"-I{folder}" for folder in (*headers, CORE, DECORATOR)]
    command = ["g++", "-std=c++20", "-O1", "-g1", *folders, *options]
    command += ["-o", str(made), *map(str, sources), *libraries, "-ldl"]
    subprocess.run(command, check=True, env=without_preload())
    return made


def run_cpp(program: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Return the exit status of a compiled program, and what it wrote to both outputs.

    One that has not ended after half an hour is a failure.
    """
    ended = subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        env=without_preload() | environment,
    )
    return ended.returncode, ended.stdout, ended.stderr


def without_preload() -> dict[str, str]:
    """Return the environment without the sanitizers of this process, for a program of its own."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
