"""Plans as C headers: compiled with every warning an error, and read back by the program."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats.c_header import write_c_header
from planners import Plan, Problem, Result, Safety, run
from planners.errors import InstanceError, InvalidPlanError
from planners.model.plan import feasible
from planners.testing.random_problems import SOLVABLE, random_problem

MAIN = """
#include "{name}"
#include "{name}"
#include <stdio.h>

int main(void) {{
    int tensor;
    printf("%zu %zu\\n", (size_t){prefix}_ARENA_BYTES, (size_t){prefix}_ALIGNMENT);
    for (tensor = 0; tensor < {prefix}_TENSOR_COUNT; tensor++)
        printf("%zu %zu\\n", {lower}_offsets[tensor], {lower}_sizes[tensor]);
    return 0;
}}
"""


def numbers_in(header: Path, prefix: str) -> list[list[int]]:
    """Compile a program with a header, included twice, and return what it prints."""
    program = header.with_suffix("")
    source = header.with_suffix(".c")
    source.write_text(MAIN.format(name=header.name, prefix=prefix.upper(), lower=prefix.lower()))
    options = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run(["gcc", *options, "-o", program, source], check=True, capture_output=True)
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def expected(problem: Problem, result: Result) -> list[list[int]]:
    assert result.plan is not None
    rows = zip(result.plan.offsets.tolist(), problem.size.tolist(), strict=True)
    return [[result.plan.peak, int(problem.alignment.max())], *map(list, rows)]


NAMES = [
    "conv/out:0", "conv.out.0", "CONV_OUT_0", "0", "", "*/ int main;", "/* a", "a ??/", "\\",
    "été", "int", "x" * 300, "x" * 301, "tensor_count", "ARENA_BYTES", "plan",
]  # fmt: skip


def test_any_name_is_a_constant_of_its_own(tmp_path: Path) -> None:
    count = len(NAMES)
    problem = Problem(
        range(1, count + 1), [0] * count, [1] * count, tensor_name=NAMES,
        alignment=[4] * count, name="net */ #error",
    )  # fmt: skip
    result = run(problem, "auto")
    write_c_header(problem, result, tmp_path / "plan.h")
    assert numbers_in(tmp_path / "plan.h", "plan") == expected(problem, result)
    text = (tmp_path / "plan.h").read_text("ascii")
    assert "PLAN_CONV_OUT_0 = 0, " in text
    assert "PLAN_CONV_OUT_0_1 = 1, " in text
    for name in ("PLAN_ARENA_BYTES", "PLAN_ALIGNMENT", "plan_offsets", "plan_sizes"):
        assert len(re.findall(rf"\b{name}\b", text)) == 1


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("my-net.v2.h", "my_net_v2"), ("8bit.h", "t8bit"), ("--.h", "plan")],
)
def test_the_name_of_the_file_is_the_prefix(tmp_path: Path, name: str, prefix: str) -> None:
    problem = Problem([3 << 33], [0], [1], alignment=[64])
    write_c_header(problem, run(problem, "naive"), tmp_path / name)
    (header,) = tmp_path.iterdir()
    assert numbers_in(header, prefix) == [[3 << 33, 64], [0, 3 << 33]]


@given(st.randoms(use_true_random=False), st.sampled_from(list(Safety)))
def test_graphs_and_explicit_pairs_as_well(
    tmp_path_factory: pytest.TempPathFactory, rng: Random, safety: Safety
) -> None:
    problem = random_problem(rng, safety, (1, 6), features=SOLVABLE - {"pins"})
    result = run(problem, "naive")
    header = tmp_path_factory.mktemp("header") / "plan.h"
    write_c_header(problem, result, header)
    assert numbers_in(header, "plan") == expected(problem, result)


def test_a_wrong_plan_is_not_written(tmp_path: Path) -> None:
    problem = Problem([4, 4], [0, 0], [1, 1])
    with pytest.raises(InvalidPlanError):
        write_c_header(problem, feasible(Plan.of(problem, [0, 2])), tmp_path / "plan.h")
    assert list(tmp_path.iterdir()) == []


def test_a_plan_beyond_the_capacity_is_not_written(tmp_path: Path) -> None:
    problem = Problem([4, 4], [0, 0], [1, 1], capacity=7)
    result = run(problem, "naive")
    with pytest.raises(InvalidPlanError, match="a plan is needed, found no_plan_found"):
        write_c_header(problem, result, tmp_path / "plan.h")
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_place_has_no_table(tmp_path: Path) -> None:
    problem = Problem([], [], [])
    with pytest.raises(InstanceError, match="a C header holds at least one tensor"):
        write_c_header(problem, run(problem, "naive"), tmp_path / "plan.h")
