"""The decorator is compiled once, and what is said where it cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_runtime.allocator.pytorch import compiled_decorator as module
from gpu_runtime.allocator.pytorch.compiled_decorator import (
    VERSIONS,
    load_decorator,
    require_version,
)
from planners.errors import DeviceError, MissingDependencyError
from tests.repository import ROOT

# Stands for a PyTorch: its headers are not needed where the source does not include them.
PYTORCH: Any = SimpleNamespace(
    __version__="2.11.0+cu130",
    __file__=str(ROOT / "torch.py"),
    version=SimpleNamespace(cuda="13.0"),
    compiled_with_cxx11_abi=lambda: True,
)

EXPORTED = 'extern "C" __attribute__((visibility("default")))'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache; what is compiled is a file with one function."""
    source = tmp_path / "decorator.cpp"
    source.write_text(EXPORTED + " int seven() { return 7; }\n")
    for library in ("c10", "c10_cuda"):
        made = tmp_path / "lib" / f"lib{library}.so"
        made.parent.mkdir(exist_ok=True)
        subprocess.run(["c++", "-shared", "-x", "c++", "/dev/null", "-o", made], check=True)
    monkeypatch.setattr(PYTORCH, "__file__", str(tmp_path / "torch.py"))
    monkeypatch.setattr(module, "SOURCE", source)
    monkeypatch.setattr(module, "SOURCES", tmp_path)
    monkeypatch.setattr(module, "cuda_headers", lambda _major: [tmp_path])
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path / "cache" / "gapless"


def libraries(cache: Path) -> list[str]:
    return [path.name for path in cache.glob("*.so")]


def test_it_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_decorator(PYTORCH).seven() == 7
    (made,) = libraries(cache)
    assert made.startswith("decorator-2.11.0+cu130-")
    monkeypatch.setattr(subprocess, "run", None)
    assert load_decorator(PYTORCH).seven() == 7


def test_whatever_it_depends_on_makes_another(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_decorator(PYTORCH)
    module.SOURCE.write_text(EXPORTED + " int seven() { return 8; }\n")
    assert load_decorator(PYTORCH).seven() == 8
    (module.SOURCES / "serving.h").write_text("// changed\n")
    load_decorator(PYTORCH)
    monkeypatch.setattr(PYTORCH, "__version__", "2.12.1")
    load_decorator(PYTORCH)
    assert len(libraries(cache)) == 4


def test_processes_that_begin_together_compile_once(cache: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\necho once >> {tmp_path}/times\nsleep 0.3\nexec c++ "$@"\n')
    compiler.chmod(0o755)
    program = (
        "from pathlib import Path; from types import SimpleNamespace\n"
        "from gpu_runtime.allocator.pytorch import compiled_decorator as module\n"
        f"module.SOURCE = Path({str(module.SOURCE)!r}); module.SOURCES = module.SOURCE.parent\n"
        "module.cuda_headers = lambda _major: [module.SOURCES]\n"
        "torch = SimpleNamespace(__version__='2.13.0', compiled_with_cxx11_abi=lambda: True,\n"
        f"    __file__={PYTORCH.__file__!r}, version=SimpleNamespace(cuda='13.0'))\n"
        "print(module.load_decorator(torch).seven())\n"
    )
    environment = {**module.os.environ, "CXX": str(compiler)}
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(3)
    ]
    assert [process.communicate()[0] for process in begun] == ["7\n"] * 3
    assert (tmp_path / "times").read_text() == "once\n"
    assert len(libraries(cache)) == 1


def test_a_release_that_the_wheel_was_built_for_needs_no_compiler(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = module.SOURCES / "decorator-2.11.0.so"
    subprocess.run(["c++", "-shared", "-fPIC", module.SOURCE, "-o", built], check=True)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert load_decorator(PYTORCH).seven() == 7
    assert libraries(cache) == []
    assert module.built_decorator("2.11.0", "12.8") is None
    monkeypatch.setattr(PYTORCH, "__version__", "2.11.1")
    with pytest.raises(MissingDependencyError, match="no-such-compiler"):
        load_decorator(PYTORCH)


@pytest.mark.parametrize("version", ["2.10.1", "2.16.0", "2.17.0+cu130", "3.11.0", "1.13"])
def test_other_versions_of_pytorch(version: str) -> None:
    with pytest.raises(DeviceError) as caught:
        require_version(version)
    assert str(caught.value) == (
        f"planned memory serves PyTorch 2.11 to 2.15, found {version}; install one of these"
    )


def test_versions_that_are_served() -> None:
    for version in ("2.11.0", "2.12.1+cu126", "2.13.0a0+git123"):
        require_version(version)
    header = (ROOT / "gpu_runtime/allocator/pytorch/passing_on.h").read_text()
    lowest, highest = VERSIONS[0][1], VERSIONS[-1][1]
    assert f"TORCH_VERSION_MINOR < {lowest} || TORCH_VERSION_MINOR > {highest}" in header


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O3")
    with pytest.raises(MissingDependencyError) as caught:
        load_decorator(PYTORCH)
    assert "there is no compiler no-such-compiler" in str(caught.value)
    assert "apt install g++" in str(caught.value)


def test_a_compiler_with_options(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "c++ -g0")
    assert load_decorator(PYTORCH).seven() == 7
    assert len(libraries(cache)) == 1


def test_a_failed_compilation_leaves_no_library(cache: Path) -> None:
    module.SOURCE.write_text("int main() { return absent; }\n")
    with pytest.raises(DeviceError) as caught:
        load_decorator(PYTORCH)
    message = str(caught.value)
    assert "decorator.cpp does not compile: " in message
    assert "absent" in message
    assert "CXX names another compiler" in message
    assert libraries(cache) == []
