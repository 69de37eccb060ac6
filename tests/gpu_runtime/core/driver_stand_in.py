"""A CUDA driver of the tests, for processes that find it by its name in the library path."""

from __future__ import annotations

import ctypes
import traceback
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from textwrap import dedent

from gpu_runtime.allocator.overwrite_kernels import KERNELS
from tests.gpu_runtime.cpp_program import CORE, compile_cpp, written_cpp
from tests.gpu_runtime.verification.devices.cuda.host_kernel import SHIM

DRIVER = "libcuda.so.1"
NAMED = ("-shared", "-fPIC", f"-Wl,-soname,{DRIVER}")
SECONDS = 120
# Processes that begin without a driver, but with what they import.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__, "gpu_runtime", "tests.gpu_runtime.core.stamped_blocks"])
HERE = Path(__file__).parent


@cache
def stand_in() -> Path:
    """Return the folder of the driver, with the kernels compiled for this machine."""
    code = SHIM + KERNELS.read_text() + (HERE / "kernel_driver.cpp").read_text()
    kernels = written_cpp("kernels.cpp", code)
    sources = [HERE / "memory_driver.cpp", kernels, CORE / "device" / "simulated_memory.cpp"]
    return compile_cpp(DRIVER, sources, [*NAMED, "-fvisibility=hidden"]).parent


def output_of(code: str, folder: Path, prepare: str = "") -> str:
    """Run code in a process that finds its driver in a folder, and return what it printed."""
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(
        target=_run, args=(dedent(prepare) + dedent(code), folder / DRIVER, sender)
    )
    process.start()
    sender.close()
    try:
        assert receiver.poll(SECONDS), "the process stands still"
        return str(receiver.recv())
    finally:
        process.kill()
        process.join()


def _run(code: str, driver: Path, sender: Connection) -> None:
    # By its name the core finds a library of that name which the process has opened.
    with suppress(OSError):
        ctypes.CDLL(str(driver))
    printed = StringIO()
    with redirect_stdout(printed):
        try:
            exec(code, {})
        except BaseException:
            traceback.print_exc(file=printed)
    sender.send(printed.getvalue())
