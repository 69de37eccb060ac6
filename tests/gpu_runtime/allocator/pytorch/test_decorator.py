"""The decorator between an allocator of PyTorch's and a core that are both made up."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from gpu_runtime._core import online_allocators
from gpu_runtime.allocator.pytorch.compiled_decorator import SOURCE, VERSIONS
from gpu_runtime.allocator.pytorch.cuda_headers import cuda_headers
from tests.gpu_runtime.allocator.pytorch.pytorch_headers import OWN_HEADERS, check_syntax
from tests.gpu_runtime.cpp_program import CORE, compile_cpp, run_cpp

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
PROGRAM = HERE / "decorator_program.cpp"
# With an online allocator of the core instead of a core that is made up.
ONLINE_PROGRAM = HERE / "online_program.cpp"
ONLINE = tuple(each.name for each in online_allocators())


def cases_of(program: Path) -> list[str]:
    return [
        line.strip().removeprefix("CASE(").removesuffix("),")
        for line in program.read_text().splitlines()
        if line.strip().startswith("CASE(")
    ]


CASES, ONLINE_CASES = cases_of(PROGRAM), cases_of(ONLINE_PROGRAM)


def pytorch_folder() -> Path:
    import torch

    return Path(torch.__file__).parent


def compiled(name: str, sources: list[Path], headers: list[Path]) -> Path:
    folders = [pytorch_folder() / "include", OWN_HEADERS, *cuda_headers("13")]
    library = pytorch_folder() / "lib"
    options = [
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra"),
        *(option for folder in folders for option in ("-isystem", str(folder))),
        *(f"-I{HERE}", f"-L{library}", f"-Wl,-rpath,{library}"),
    ]
    with_pytorch = [*sources, HERE / "cuda_stand_in.cpp", SOURCE]
    return compile_cpp(name, with_pytorch, options, libraries=["-lc10"], headers=headers)


@cache
def program() -> Path:
    return compiled("decorator", [PROGRAM], [])


@cache
def online_program() -> Path:
    table = CORE / "allocator" / "serving_table.cpp"
    rooms = [*(CORE / "device").glob("*.cpp"), *(CORE / "online").glob("*.cpp")]
    # Replays serve planned memory as well, which is not in this program.
    rooms.remove(CORE / "online" / "replay.cpp")
    headers = [HERE.parent.parent / "core"]
    return compiled("online", [ONLINE_PROGRAM, table, *sorted(rooms)], headers)


# Behind a clock the decorator is not in front, which one case looks at.
TIMED = [f"{case} timed" for case in CASES if case != "it_is_decorated_once"]


@pytest.mark.parametrize("case", [*CASES, *TIMED])
def test_case(case: str) -> None:
    assert run_cpp(program(), *case.split()) == (0, "", "")


@pytest.mark.parametrize("name", ONLINE)
@pytest.mark.parametrize("case", ONLINE_CASES)
def test_case_of_an_online_allocator(case: str, name: str) -> None:
    assert run_cpp(online_program(), case, name) == (0, "", "")


def test_every_case_is_run() -> None:
    for made, cases in ((program(), CASES), (online_program(), ONLINE_CASES)):
        assert run_cpp(made) == (0, "\n".join([*sorted(cases), ""]), "")
    assert len(CASES) > 20
    assert len(ONLINE_CASES) > 8


def test_it_compiles_against_the_pytorch_that_is_installed() -> None:
    import torch

    assert tuple(map(int, torch.__version__.split(".")[:2])) in VERSIONS
    check_syntax(pytorch_folder() / "include", "g++")
