"""The decorator of PyTorch's allocator, built for the PyTorch that is installed."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_runtime.allocator.pytorch.cuda_headers import cuda_headers
from planners.errors import DeviceError, MissingDependencyError

SOURCES = Path(__file__).parent
SOURCE = SOURCES / "decorator.cpp"
# Versions of PyTorch whose allocator interface `passing_on.h` implements.
VERSIONS = ((2, 11), (2, 12), (2, 13), (2, 14), (2, 15))
# Major version of CUDA whose headers the libraries in the wheel were compiled with.
BUILT_CUDA = "13"


class UnknownPyTorchError(DeviceError):
    """The members of this PyTorch's allocator are not known."""


def load_decorator(pytorch: Any) -> ctypes.CDLL:
    """Return the decorator's library for the imported PyTorch.

    A wheel has it for the releases of PyTorch that it was built for. For any other PyTorch, the
    first use compiles it in about ten seconds, and later processes reuse it.

    Raises
    ------
    MissingDependencyError
        A compiler or headers are missing.
    DeviceError
        The decorator does not support this PyTorch, or does not compile.
    """
    require_version(pytorch.__version__)
    if (built := built_decorator(pytorch.__version__, pytorch.version.cuda)) is not None:
        return ctypes.CDLL(str(built))
    command = compile_command(pytorch)
    libraries = [f"-L{Path(pytorch.__file__).parent / 'lib'}", "-lc10", "-lc10_cuda"]
    made = _cache_folder() / f"{_fingerprint(pytorch.__version__, command + libraries)}.so"
    if not made.exists():
        _compile(command, libraries, made)
    return ctypes.CDLL(str(made))


def built_decorator(version: str, cuda: str) -> Path | None:
    """Return the library in the wheel for a release of PyTorch and its CUDA; None without one."""
    built = SOURCES / f"decorator-{version.partition('+')[0]}.so"
    return built if cuda.split(".")[0] == BUILT_CUDA and built.exists() else None


def require_version(version: str) -> None:
    """Refuse a PyTorch whose allocator has an unknown interface."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) not in VERSIONS:
        first, last = (".".join(map(str, one)) for one in (VERSIONS[0], VERSIONS[-1]))
        raise UnknownPyTorchError(
            f"planned memory serves PyTorch {first} to {last}, found {version}; "
            "install one of these"
        )


def compile_command(pytorch: Any) -> list[str]:
    """Return the command of the compiler, with its options and include folders."""
    compiler = os.environ.get("CXX") or "c++"
    if shutil.which(compiler.split()[0]) is None:
        raise MissingDependencyError(
            f"planned memory is compiled against PyTorch once, and there is no compiler "
            f"{compiler}; install GCC 11 or newer (apt install g++), or set CXX"
        )
    package = Path(pytorch.__file__).parent
    headers = [package / "include", *cuda_headers(pytorch.version.cuda.split(".")[0])]
    return [
        *compiler.split(),
        *("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(pytorch.compiled_with_cxx11_abi())}",
        # System headers give no warnings.
        *(option for folder in headers for option in ("-isystem", str(folder))),
    ]


def _compile(command: list[str], libraries: list[str], made: Path) -> None:
    made.parent.mkdir(parents=True, exist_ok=True)
    with _alone(made.with_suffix(".lock")):
        if made.exists():
            return
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            output = Path(folder) / made.name
            ended = subprocess.run(
                # A linker searches a library only for names that were missing before it.
                [*command, "-shared", str(SOURCE), "-o", str(output), *libraries],
                capture_output=True,
                text=True,
                check=False,
            )
            if ended.returncode != 0:
                raise DeviceError(
                    f"{SOURCE.name} does not compile: {_first_error(ended.stderr)}; GCC 11 or "
                    f"newer is needed, and CXX names another compiler"
                )
            output.replace(made)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a lock: the processes of a torchrun start together, and only one should compile."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cache_folder() -> Path:
    """Return the folder for the library: PyTorch's folder of extensions, or the user's cache."""
    if given := os.environ.get("TORCH_EXTENSIONS_DIR"):
        return Path(given) / "gapless"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gapless"


def _fingerprint(version: str, command: list[str]) -> str:
    found = hashlib.sha256(" ".join([version, *command]).encode())
    for source in sorted([SOURCE, *SOURCES.glob("*.h")]):
        found.update(source.read_bytes())
    return f"decorator-{version}-{found.hexdigest()[:16]}"


def _first_error(said: str) -> str:
    lines = said.splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "no message")
