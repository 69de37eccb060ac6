"""What the run-time compiler says where it is missing or refuses; over a library of our own."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_runtime.verification.devices.cuda import compiler
from gpu_runtime.verification.devices.cuda.context import KERNEL
from planners.errors import DeviceError, MissingDependencyError

# Refuses sources with the word `wrong`, and returns every other as its own machine code.
LIBRARY = r"""
#include <cstring>
#include <string>
extern "C" {
int nvrtcCreateProgram(void **program, const char *code, const char *, int, void *, void *) {
    *program = new std::string(code);
    return 0;
}
int nvrtcCompileProgram(void *program, int options, const char **option) {
    const bool is_for_90 = options > 0 && std::strcmp(option[0], "--gpu-architecture=sm_90") == 0;
    const std::string &code = *static_cast<std::string *>(program);
    return is_for_90 && code.find("wrong") == std::string::npos ? 0 : 6;
}
static const char LOG[] = "note: 1\nk.cu(1): error: wrong\n1 error detected";
int nvrtcGetProgramLogSize(void *, size_t *size) { return *size = sizeof LOG, 0; }
int nvrtcGetProgramLog(void *, char *log) { return std::memcpy(log, LOG, sizeof LOG), 0; }
int nvrtcGetCUBINSize(void *program, size_t *size) {
    return *size = static_cast<std::string *>(program)->size(), 0;
}
int nvrtcGetCUBIN(void *program, char *code) {
    const std::string &text = *static_cast<std::string *>(program);
    return std::memcpy(code, text.data(), text.size()), 0;
}
int nvrtcDestroyProgram(void **program) {
    delete static_cast<std::string *>(*program);
    return 0;
}
const char *nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }
}
"""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget the library that was opened."""
    compiler._open_library.cache_clear()
    yield
    compiler._open_library.cache_clear()


@pytest.fixture
def nvrtc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a library in NVRTC's place, and return what writes a source."""
    source, library = tmp_path / "nvrtc.cpp", tmp_path / "nvrtc.so"
    source.write_text(LIBRARY)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setattr(compiler, "_candidates", lambda: iter(["nowhere.so", str(library)]))

    def write(code: str) -> Path:
        path = tmp_path / "k.cu"
        path.write_text(code)
        return path

    return write


def test_machine_code_comes_back_whole(nvrtc: Callable[[str], Path]) -> None:
    assert compiler.compile_for(nvrtc("right"), (9, 0)) == b"right"


def test_a_refusal_is_the_first_error(nvrtc: Callable[[str], Path]) -> None:
    with pytest.raises(DeviceError) as raised:
        compiler.compile_for(nvrtc("wrong"), (9, 0))
    assert str(raised.value) == (
        "nvrtcCompileProgram k.cu: NVRTC_ERROR_COMPILATION, k.cu(1): error: wrong"
    )


def test_without_the_compiler_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "_candidates", lambda: iter(["nowhere.so"]))
    with pytest.raises(MissingDependencyError, match="pip install nvidia-cuda-nvrtc"):
        compiler.compile_for(KERNEL, (9, 0))


def test_libraries_beside_pytorch_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia" / "cu13" / "lib").mkdir(parents=True)
    library = tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    library.touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert str(library) in list(compiler._candidates())


@pytest.mark.gpu
def test_the_kernel_compiles_here() -> None:
    assert compiler.compile_for(KERNEL, (9, 0)).startswith(b"\x7fELF")


def test_nothing_is_loaded_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libnvrtc-builtins.so.13").write_text("planted")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: pytest.fail(f"{path} was loaded"))
    compiler._load_companions(Path("libnvrtc.so.13"))
