"""C++ of the tests, compiled by the machine's compiler, each source once for all test runs."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path

from tests.repository import ROOT

CORE = ROOT / "gpu_runtime" / "core" / "src"
# Where the core finds what it shares with the decorator of PyTorch's allocator.
DECORATOR = ROOT / "gpu_runtime" / "allocator" / "pytorch"
# Programs that share these options share the objects of the core.
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")

# Processes of one run, the lanes of CI and later runs share the objects.
KEPT = ROOT / "build" / "test-objects"
KEPT_SECONDS = 7 * 24 * 3600
# Compilers at once, of which each takes half a gigabyte. A guess.
MOST_AT_ONCE = 4


def compile_cpp(
    name: str,
    sources: Sequence[Path],
    options: Sequence[str] = (),
    libraries: Sequence[str] = (),
    *,
    headers: Sequence[Path] = (),
) -> Path:
    """Compile C++ that finds the headers of the runtime's core, and return what was made.

    Headers in ``headers`` are found before those.
    """
    folders = [f"-I{folder}" for folder in (*headers, CORE, DECORATOR)]
    compiler = ["g++", "-std=c++20", "-O1", "-g1", *folders, *options]
    _kept()  # swept once, before the threads below
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(os.sched_getaffinity(0)))) as pool:
        objects = pool.map(lambda source: _object_of(source, compiler), sources)
    linked = [*map(str, objects), *libraries, "-ldl"]
    key = sha256("\0".join((_version(), *options, *linked)).encode()).hexdigest()
    made = _kept() / key / name
    if made.exists():
        os.utime(made)
        return made
    made.parent.mkdir(exist_ok=True)
    fresh = made.with_name(f"{name}.{os.getpid()}")
    _run([*compiler, "-o", str(fresh), *linked])
    return fresh.replace(made)


def written_cpp(name: str, text: str) -> Path:
    """Return a source whose path depends on its text alone, so that its object is found again."""
    source = KEPT / sha256(text.encode()).hexdigest() / name
    source.parent.mkdir(parents=True, exist_ok=True)
    fresh = source.with_name(f"{source.name}.{os.getpid()}")
    fresh.write_text(text)
    return fresh.replace(source)


def _object_of(source: Path, compiler: Sequence[str]) -> Path:
    """Return the object of a source, which one process compiles while others wait for it."""
    preprocessed = _run([*compiler, "-E", str(source)])
    # The text holds what the folders of headers did.
    options = [option for option in compiler if not option.startswith("-I")]
    key = sha256("\0".join((*options, _version(), preprocessed)).encode()).hexdigest()
    made = _kept() / f"{key}.o"
    with made.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Whoever waited for the lock may have opened a file that has been replaced since.
        if made.exists() and made.stat().st_size:
            os.utime(made)
            return made
        fresh = made.with_suffix(f".{os.getpid()}")
        command = [*options, "-c", "-x", "c++-cpp-output", "-o", str(fresh), "-"]
        _run(command, preprocessed)
        return fresh.replace(made)


@cache
def _kept() -> Path:
    """Return the folder of objects, without those that no run used for a week."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for file in KEPT.rglob("*"):
        if file.is_file() and file.stat().st_mtime < time.time() - KEPT_SECONDS:
            file.unlink(missing_ok=True)
    return KEPT


@cache
def _version() -> str:
    return _run(["g++", "--version"])


def _run(command: Sequence[str], text: str | None = None) -> str:
    """Return what a command of the compiler writes to its output."""
    return subprocess.run(
        command, check=True, env=without_preload(), input=text, stdout=subprocess.PIPE, text=True
    ).stdout


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
