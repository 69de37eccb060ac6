"""A CUDA driver of the tests, for processes that find it by its name in the library path."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from textwrap import dedent

from gpu_runtime.allocator.overwrite_kernels import KERNELS
from tests.gpu_runtime.cpp_program import CORE, compile_cpp, new_folder
from tests.gpu_runtime.verification.devices.cuda.host_kernel import SHIM
from tests.repository import ROOT

DRIVER = "libcuda.so.1"
HERE = Path(__file__).parent


@cache
def stand_in() -> Path:
    """Return the folder of the driver, with the kernels compiled for this machine."""
    kernels = new_folder() / "kernels.cpp"
    kernels.write_text(SHIM + KERNELS.read_text() + (HERE / "kernel_driver.cpp").read_text())
    sources = [HERE / "memory_driver.cpp", kernels, CORE / "device" / "simulated_memory.cpp"]
    options = ["-shared", "-fPIC", "-fvisibility=hidden"]
    return compile_cpp(DRIVER, sources, options).parent


def output_of(code: str, folder: Path, prepare: str = "") -> str:
    """Run code in a process that finds its driver in a folder, and return what it printed."""
    ended = subprocess.run(
        [sys.executable, "-c", dedent(prepare) + dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"LD_LIBRARY_PATH": str(folder)},
        cwd=ROOT,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout
