"""The decorator between an allocator of PyTorch's and a core that are both made up."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from gpu_runtime.allocator.pytorch.compiled_decorator import SOURCE, VERSIONS
from gpu_runtime.allocator.pytorch.cuda_headers import cuda_headers
from tests.gpu_runtime.allocator.pytorch.pytorch_headers import OWN_HEADERS, check_syntax
from tests.gpu_runtime.cpp_program import compile_cpp, without_preload

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
PROGRAM = HERE / "decorator_program.cpp"
CASES = [
    line.strip().removeprefix("CASE(").removesuffix("),")
    for line in PROGRAM.read_text().splitlines()
    if line.strip().startswith("CASE(")
]


def pytorch_folder() -> Path:
    import torch

    return Path(torch.__file__).parent


@cache
def program() -> Path:
    folders = [pytorch_folder() / "include", OWN_HEADERS, *cuda_headers("13")]
    library = pytorch_folder() / "lib"
    options = [
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra"),
        *(option for folder in folders for option in ("-isystem", str(folder))),
        *(f"-I{HERE}", f"-L{library}", f"-Wl,-rpath,{library}"),
    ]
    sources = [PROGRAM, HERE / "cuda_stand_in.cpp", SOURCE]
    return compile_cpp("decorator", sources, options, libraries=["-lc10"])


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    ended = subprocess.run(
        [program(), case],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=without_preload(),
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_every_case_is_run() -> None:
    listed = subprocess.run([program()], capture_output=True, text=True, check=True)
    assert listed.stdout.split() == sorted(CASES)
    assert len(CASES) > 20


def test_it_compiles_against_the_pytorch_that_is_installed() -> None:
    import torch

    assert tuple(map(int, torch.__version__.split(".")[:2])) in VERSIONS
    check_syntax(pytorch_folder() / "include")
