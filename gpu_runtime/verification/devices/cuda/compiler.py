"""NVRTC, the run-time compiler: from CUDA C++ to machine code for one device."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path

from planners.errors import DeviceError, MissingDependencyError

SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so")
TOOLKITS = Path("/usr/local")

_SUCCESS = 0


def compile_for(source: Path, capability: tuple[int, int]) -> bytes:
    """Compile CUDA C++ to a cubin for devices of one compute capability, major and minor."""
    library = _open_library()
    program = c_void_p()
    code, name = source.read_bytes(), source.name.encode()
    _check(library, "nvrtcCreateProgram", byref(program), code, name, 0, None, None)
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}".encode(), b"-std=c++17"]
    listed = (c_char_p * len(options))(*options)
    try:
        status = library.nvrtcCompileProgram(program, len(options), listed)
        if status != _SUCCESS:
            raise DeviceError(
                f"nvrtcCompileProgram {source.name}: {_error_name(library, status)}, "
                f"{_first_error(_read(library, 'nvrtcGetProgramLog', program))}"
            )
        return _read(library, "nvrtcGetCUBIN", program, size_call="nvrtcGetCUBINSize")
    finally:
        library.nvrtcDestroyProgram(byref(program))


@cache
def _open_library() -> ctypes.CDLL:
    for candidate in _candidates():
        try:
            _load_companions(Path(candidate))
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    raise MissingDependencyError(
        "NVRTC, CUDA's run-time compiler, is not installed; install it with: "
        "pip install nvidia-cuda-nvrtc"
    )


def _candidates() -> Iterator[str]:
    """Yield where the library may lie: on the loader's path, beside PyTorch, in a toolkit."""
    yield from SONAMES
    packages = importlib.util.find_spec("nvidia")
    for folder in (packages.submodule_search_locations or []) if packages else []:
        yield from _libraries_in(Path(folder), "*/lib/libnvrtc.so*")
    yield from _libraries_in(TOOLKITS, "cuda*/lib64/libnvrtc.so*")


def _load_companions(library: Path) -> None:
    """Load what NVRTC otherwise looks for on the loader's path alone."""
    if library.is_absolute():
        for companion in sorted(library.parent.glob("libnvrtc-builtins.so*")):
            ctypes.CDLL(str(companion))


def _libraries_in(folder: Path, pattern: str) -> list[str]:
    return [str(path) for path in sorted(folder.glob(pattern), reverse=True)]


def _check(library: ctypes.CDLL, call: str, *arguments: object) -> None:
    status = getattr(library, call)(*arguments)
    if status != _SUCCESS:
        raise DeviceError(f"{call}: {_error_name(library, status)}")


def _read(library: ctypes.CDLL, call: str, program: c_void_p, size_call: str = "") -> bytes:
    size = c_size_t()
    _check(library, size_call or f"{call}Size", program, byref(size))
    text = ctypes.create_string_buffer(size.value)
    _check(library, call, program, text)
    return text.raw


def _error_name(library: ctypes.CDLL, status: int) -> str:
    library.nvrtcGetErrorString.restype = c_char_p
    return str(library.nvrtcGetErrorString(c_int(status)).decode())


def _first_error(log: bytes) -> str:
    lines = log.rstrip(b"\0").decode(errors="replace").splitlines()
    return next((line for line in lines if "error" in line), " ".join(lines[:1]))
