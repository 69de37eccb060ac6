"""NVRTC, the run-time compiler: what it returns, and what is said if it refuses or is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpu_runtime.verification.devices.cuda.compiler import compile_for
from gpu_runtime.verification.devices.cuda.context import KERNEL
from planners.errors import MissingDependencyError
from tests.gpu_runtime.core.driver_stand_in import output_of
from tests.gpu_runtime.cpp_program import compile_cpp, written_cpp

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


def compiled(code: str, tmp_path: Path) -> str:
    """Return what a process prints that compiles code, with a library in NVRTC's place."""
    name = "libnvrtc.so.13"
    options = ["-fPIC", "-shared", f"-Wl,-soname,{name}"]
    library = compile_cpp(name, [written_cpp("nvrtc.cpp", LIBRARY)], options)
    source = tmp_path / "k.cu"
    source.write_text(code)
    prepare = f"import ctypes; ctypes.CDLL({str(library)!r})"
    return output_of(
        f"""
        from pathlib import Path
        from gpu_runtime.verification.devices.cuda.compiler import compile_for
        print(compile_for(Path({str(source)!r}), (9, 0)))
        """,
        tmp_path,
        prepare,
    )


def test_machine_code_comes_back_whole(tmp_path: Path) -> None:
    assert compiled("right", tmp_path) == "b'right'\n"


def test_a_refusal_is_the_first_error(tmp_path: Path) -> None:
    assert compiled("wrong", tmp_path).splitlines()[-1] == (
        "planners.errors.DeviceError: k.cu: nvrtcCompileProgram: NVRTC_ERROR_COMPILATION (6), "
        "k.cu(1): error: wrong"
    )


def test_without_cuda_bindings_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(MissingDependencyError, match=r"cuda-bindings .*pip install 'gapless\[cuda"):
        compile_for(KERNEL, (9, 0))


@pytest.mark.gpu
def test_the_kernel_compiles_here() -> None:
    assert compile_for(KERNEL, (9, 0)).startswith(b"\x7fELF")
