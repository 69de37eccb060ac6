"""Where CUDA's headers are found, and what is said where they are not."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from gpu_runtime.allocator.pytorch import cuda_headers as module
from gpu_runtime.allocator.pytorch.cuda_headers import cuda_headers
from planners.errors import MissingDependencyError


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a machine that has nothing of CUDA."""
    packages = ModuleSpec("nvidia", None, is_package=True)
    packages.submodule_search_locations = [str(tmp_path / "nvidia")]
    monkeypatch.setattr(module, "TOOLKITS", tmp_path / "local")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: packages)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def put_headers(folder: Path, version: int | None, *, companion: bool = True) -> Path:
    (folder / "crt").mkdir(parents=True)
    if version is not None:
        text = f"#define CUDART_VERSION  {version}\n"
        (folder / "cuda_runtime_api.h").write_text(text)
    if companion:
        (folder / "crt" / "host_defines.h").touch()
    return folder


def refusal(major: str = "13") -> str:
    with pytest.raises(MissingDependencyError) as caught:
        cuda_headers(major)
    return str(caught.value)


def test_a_toolkit(machine: Path) -> None:
    folder = put_headers(machine / "local" / "cuda" / "include", 13000)
    assert cuda_headers("13") == [folder]


def test_the_toolkit_that_the_user_names(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_headers(machine / "local" / "cuda" / "include", 13000)
    folder = put_headers(machine / "mine" / "include", 13010)
    monkeypatch.setenv("CUDA_HOME", str(machine / "mine"))
    assert cuda_headers("13") == [folder]


def test_wheels_that_lie_in_two_folders(machine: Path) -> None:
    runtime = put_headers(machine / "nvidia" / "cuda_runtime" / "include", 12080, companion=False)
    companion = put_headers(machine / "nvidia" / "cuda_nvcc" / "include", None)
    assert cuda_headers("12") == [runtime, companion]


def test_the_toolkit_of_another_cuda_is_passed_over(machine: Path) -> None:
    put_headers(machine / "local" / "cuda" / "include", 12080)
    folder = put_headers(machine / "local" / "cuda-13.0" / "include", 13000)
    assert cuda_headers("13") == [folder]


def test_headers_that_came_together_are_taken_together(machine: Path) -> None:
    put_headers(machine / "nvidia" / "a" / "include", 13000, companion=False)
    put_headers(machine / "nvidia" / "b" / "include", None)
    folder = put_headers(machine / "nvidia" / "c" / "include", 13000)
    assert cuda_headers("13") == [folder]


def test_nothing_is_there() -> None:
    assert refusal() == (
        "planned memory is compiled against PyTorch once, and the header cuda_runtime_api.h of "
        "CUDA 13 is not there; get it with: pip install 'gapless[cuda]'"
    )
    assert refusal("12").endswith(
        "get it with: pip install nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12"
    )
    assert refusal("11").endswith("get it with: set CUDA_HOME to a toolkit of CUDA 11")


def test_only_those_of_another_cuda_are_there(machine: Path) -> None:
    put_headers(machine / "local" / "cuda" / "include", 12080)
    assert "cuda_runtime_api.h of CUDA 13 is not there (found those of CUDA 12);" in refusal()


def test_the_companion_is_missing(machine: Path) -> None:
    put_headers(machine / "nvidia" / "cu13" / "include", 13000, companion=False)
    assert "the header crt/host_defines.h of CUDA 13 is not there; get it with" in refusal()
