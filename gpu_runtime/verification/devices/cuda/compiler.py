"""NVRTC, the run-time compiler: from CUDA C++ to machine code for one GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from planners.errors import DeviceError, MissingDependencyError


def compile_for(source: Path, capability: tuple[int, int]) -> bytes:
    """Compile CUDA C++ to a cubin for GPUs of one compute capability, major and minor."""
    # Imported here because the package is optional, and only a program that uses a GPU compiles.
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise MissingDependencyError(f"a GPU needs cuda-bindings ({error})", "cuda") from None

    name = source.name.encode()
    try:
        program = ask(nvrtc.nvrtcCreateProgram, source.read_bytes(), name, 0, [], [])
    except MissingLibraryError as error:
        raise MissingDependencyError(f"a GPU needs NVRTC ({error})", "cuda") from None
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}".encode(), b"-std=c++17"]
    try:
        ask(nvrtc.nvrtcCompileProgram, program, len(options), options)
        cubin = bytes(ask(nvrtc.nvrtcGetCUBINSize, program))
        ask(nvrtc.nvrtcGetCUBIN, program, cubin)
        return cubin
    except DeviceError as error:
        log = bytes(ask(nvrtc.nvrtcGetProgramLogSize, program))
        ask(nvrtc.nvrtcGetProgramLog, program, log)
        raise DeviceError(f"{source.name}: {error}{_first_error(log)}") from None
    finally:
        ask(nvrtc.nvrtcDestroyProgram, program)


class MissingLibraryError(DeviceError):
    """A library of NVIDIA is not installed, or is too old to have a function."""


def ask(function: Callable[..., tuple[Any, ...]], *arguments: object, what: str = "") -> Any:
    """Call a function of cuda-bindings and return its value; an error names the function."""
    try:
        status, *values = function(*arguments)
    except RuntimeError as error:
        raise MissingLibraryError(f"{function.__name__}: {error}") from None
    if status:
        called = f"{function.__name__} {what}".strip()
        raise DeviceError(f"{called}: {status.name} ({int(status)})")
    return values[0] if len(values) == 1 else values


def _first_error(log: bytes) -> str:
    lines = log.rstrip(b"\0").decode(errors="replace").splitlines()
    return next((f", {line}" for line in lines if "error" in line), "")
