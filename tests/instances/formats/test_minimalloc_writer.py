"""MiniMalloc CSV written: what is kept, what is refused, and that it reads back the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats.minimalloc_csv import (
    read_minimalloc_csv,
    read_minimalloc_plan,
    write_minimalloc_csv,
)
from planners import Plan, Problem, place
from planners.errors import GaplessError, InstanceError, InvalidPlanError
from planners.files.digest import problem_digest
from planners.model.graph import Graph


def test_the_text_is_what_minimalloc_writes(tmp_path: Path) -> None:
    problem = Problem([4, 4], [0, 3], [3, 9], tensor_name=["b1", "b2"])
    write_minimalloc_csv(problem, tmp_path / "a.csv", Plan.of(problem, [8, 0]))
    assert (tmp_path / "a.csv").read_bytes() == (
        b"id,lower,upper,size,offset\nb1,0,3,4,8\nb2,3,9,4,0\n"
    )


def test_columns_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    write_minimalloc_csv(Problem([4], [0], [3]), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "id,lower,upper,size\n0,0,3,4\n"


def test_alignment_and_gaps_are_written(tmp_path: Path) -> None:
    problem = Problem([4, 4], [0, 0], [9, 9], alignment=[8, 1], gaps=[[0, 5, 6], [0, 1, 3]])
    write_minimalloc_csv(problem, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (
        "id,lower,upper,size,alignment,gaps\n0,0,9,4,8,1-3 5-6\n1,0,9,4,1,\n"
    )


@pytest.mark.parametrize("names", [["a", "a"], ["a,b", "c"], ['"', "c"]])
def test_names_that_cannot_be_ids_give_way_to_numbers(tmp_path: Path, names: list[str]) -> None:
    write_minimalloc_csv(Problem([1, 1], [0, 0], [1, 1], tensor_name=names), tmp_path / "a.csv")
    assert read_minimalloc_csv(tmp_path / "a.csv").tensor_name == ("0", "1")


LIFETIMES: dict[str, Any] = {"start": [0, 0], "end": [2, 2]}
GRAPH = Graph(op=["a", "b"], stream=[0, 1], producer=[0, 1], consumers=[[1], []], control=[])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"graph": GRAPH}, "a graph with 2 streams, in which lifetimes alone are wrong"),
        ({"unsafe_pairs": [[0, 1]]}, "explicit unsafe pairs"),
        ({**LIFETIMES, "contiguous": [[0, 1]]}, "found 1 chains"),
        ({**LIFETIMES, "pinned": {1: 8}}, "found 1 pinned"),
        ({"start": [-5, 0], "end": [2, 2], "gaps": [[0, -3, 0]]}, "tensor 0 from step -3"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InstanceError, match=message):
        write_minimalloc_csv(Problem([8, 8], **fields), tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


def test_a_wrong_plan_is_not_written(tmp_path: Path) -> None:
    problem = Problem([4, 4], [0, 0], [3, 9])
    with pytest.raises(InvalidPlanError):
        write_minimalloc_csv(problem, tmp_path / "a.csv", Plan.of(problem, [0, 0]))
    assert not (tmp_path / "a.csv").exists()


def test_a_folder_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(GaplessError, match="cannot be written: No such file"):
        write_minimalloc_csv(Problem([1], [0], [1]), tmp_path / "none" / "a.csv")


tensors = st.lists(
    st.tuples(
        st.integers(0, 2**40), st.integers(-99, 99), st.integers(3, 50), st.integers(0, 12),
        st.booleans(),
    ),
    min_size=1,
)  # fmt: skip


@given(tensors)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, tensors: list[tuple[int, int, int, int, bool]]
) -> None:
    problem = Problem(
        [size for size, *_ in tensors],
        [start for _, start, *_ in tensors],
        [start + length for _, start, length, *_ in tensors],
        alignment=[1 << power for *_, power, _ in tensors],
        gaps=[
            (index, start + 1, start + 2)
            for index, (_, start, _, _, gap) in enumerate(tensors)
            if gap and start >= 0
        ],
        tensor_name=[f"t{index}" for index in range(len(tensors))],
    )
    path = tmp_path_factory.mktemp("round") / "a.csv"
    plan = place(problem)
    write_minimalloc_csv(problem, path, plan)
    again, plan_again = read_minimalloc_plan(path)
    assert problem_digest(again) == problem_digest(problem)
    assert again.tensor_name == problem.tensor_name
    assert plan_again is None if not tensors else plan_again is not None
    assert plan_again is None or plan_again.offsets.tolist() == plan.offsets.tolist()
