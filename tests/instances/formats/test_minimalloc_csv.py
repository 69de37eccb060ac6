"""MiniMalloc CSV read and written: what is written is read again, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats import minimalloc_csv
from instances.formats.minimalloc_csv import (
    MINIMALLOC_CSV,
    read_minimalloc_csv,
    read_minimalloc_plan,
    write_minimalloc_csv,
)
from planners import Plan, Problem, place
from planners.errors import InstanceError, InvalidPlanError
from planners.files.formats import read_problem
from planners.files.problem_file import problem_digest
from planners.model.graph import Graph

HEADER = "id,lower,upper,size"


def written(folder: Path, text: str | bytes, name: str = "case.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER}\nconv1,0,3,64\n7,-2,1,0\n",
        "size,id,upper,lower\n64,conv1,3,0\n0,7,1,-2\n",
        f"{HEADER}\r\nconv1,0,3,64\r\n7,-2,1,0\r\n",
        f"\ufeff{HEADER}\nconv1,0,3,64\n7,-2,1,0",
        " id , lower , upper , size \nconv1, 0, 3, 64\n\n7,-2,1,0\n\n",
        f'{HEADER}\n"conv1",0,3,"64"\n7,-2,1,00\n',
    ],
    ids=[
        "plain",
        "columns in another order",
        "CRLF",
        "byte order mark",
        "spaces and blank lines",
        "quotes",
    ],
)
def test_lifetimes_are_half_open_and_ids_become_names(tmp_path: Path, text: str) -> None:
    problem = read_problem(written(tmp_path, text, "A.1048576.csv"))
    assert (problem.name, problem.capacity) == ("A.1048576", None)
    assert problem.start.tolist() == [0, -2]
    assert problem.end.tolist() == [3, 1]
    assert problem.size.tolist() == [64, 0]
    assert problem.tensor_name == ("conv1", "7")


@pytest.mark.parametrize(
    "header",
    [
        "buffer_id,start,upper,size", "buffer,begin,upper,size", "ID,Lower,UPPER,Size",
        "id,lower,upper,size,hint", "id,lower,upper,size,kind",
    ],
)  # fmt: skip
def test_columns_have_other_names_too(tmp_path: Path, header: str) -> None:
    more = ",-1" * (header.count(",") - 3)
    problem = read_problem(written(tmp_path, f"{header}\na,1,4,8{more}\n"))
    assert (problem.start.tolist(), problem.end.tolist()) == ([1], [4])
    assert problem.tensor_name == ("a",)


def test_under_the_name_end_the_last_step_is_included(tmp_path: Path) -> None:
    text = "id,start,end,size,gaps\na,1,4,8,2-2\nb,3,3,8,\n"
    problem = read_problem(written(tmp_path, text))
    assert (problem.start.tolist(), problem.end.tolist()) == ([1, 3], [5, 4])
    assert problem.gaps.tolist() == [[0, 2, 3]]


def test_alignment_and_gaps_are_taken(tmp_path: Path) -> None:
    text = "gaps,alignment,id,lower,upper,size\n2-3  5-7,64,a,0,9,10\n,1,b,0,9,10\n"
    problem = read_problem(written(tmp_path, text))
    assert problem.alignment.tolist() == [64, 1]
    assert problem.gaps.tolist() == [[0, 2, 3], [0, 5, 7]]


def test_a_windowed_gap_is_refused_in_words(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEADER},gaps\na,0,9,10,2-3\nb,0,9,10,2-3@4:8\n")
    with pytest.raises(InstanceError, match=r"line 3, column gaps: .* '2-3@4:8': .* windowed gap"):
        read_minimalloc_csv(path)


def test_offsets_are_a_plan_and_no_part_of_the_problem(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEADER},offset\na,0,2,10,0\nb,0,2,10,30\n")
    assert (read_problem(path).pinned == -1).all()
    problem, plan = read_minimalloc_plan(path)
    assert plan is not None
    assert plan.offsets.tolist() == [0, 30]
    assert plan.peak == 40
    assert problem.size.tolist() == [10, 10]


@pytest.mark.parametrize("text", [f"{HEADER}\na,0,2,1\n", f"{HEADER},offset\na,0,2,1,\n"])
def test_without_offsets_there_is_no_plan(tmp_path: Path, text: str) -> None:
    assert read_minimalloc_plan(written(tmp_path, text))[1] is None


def test_offsets_on_some_rows_are_pins(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEADER},offset\na,0,2,1,4\nb,0,2,1,-1\nc,0,2,1,\n")
    problem, plan = read_minimalloc_plan(path)
    assert plan is None
    assert problem.pinned.tolist() == read_problem(path).pinned.tolist() == [4, -1, -1]


def test_comments_above_the_header_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, f"# pool_offset=64\r\n{HEADER},offset\n#,0,2,1,x\n")
    with pytest.raises(InstanceError, match="line 3, column offset"):
        read_minimalloc_csv(path)


@pytest.mark.parametrize("below", ["", "\n\n"])
def test_a_header_alone_is_not_a_problem(tmp_path: Path, below: str) -> None:
    # A plan for nothing is optimal; the table that was cut off behind its header is not planned.
    path = written(tmp_path, f"id,lower,upper,size\n{below}")
    with pytest.raises(InstanceError, match=r"a row for each tensor is needed .*, found none"):
        read_problem(path)
    with pytest.raises(InstanceError, match=r"holds at least one tensor, .*, found none"):
        write_minimalloc_csv(Problem([], [], []), path)


def test_names_may_hold_separators_and_lines(tmp_path: Path) -> None:
    path = written(tmp_path, f'{HEADER}\n"a,b",0,1,2\nc,0,1,x\n')
    with pytest.raises(InstanceError, match=r"line 3, column size: .* found 'x'"):
        read_minimalloc_csv(path)


NEEDS = "a whole number that fits int64 is needed, found"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header: id,lower,upper,size, each once and in any order, is needed, found ''"),
        ("1,2,3,4\n", "header: .* found '1,2,3,4'"),
        ("id,lower,size\n", "header: .* found 'id,lower,size'"),
        ("id,lower,upper,size,size\n", "header: .* each once"),
        ("id,lower,upper,size,colour\n", "header: column 'colour' is unknown; known columns"),
        ("id,lower,start,upper,size\n", "header: .* each once"),
        ("id,lower,upper,size,gaps,gaps\n", "header: column gaps once at most"),
        (f"{HEADER},alignment\na,0,1,2,48\n", "line 2, column alignment: a power of two .* 48"),
        (f"{HEADER},gaps\na,0,9,2,2-x\n", "line 2, column gaps: gaps FIRST-LAST .* found '2-x'"),
        (f"{HEADER},gaps\na,0,9,2,2-12\n", "field gaps, tensor 0: a gap lies within"),
        (f"{HEADER},offset\na,0,9,2,-2\n", "line 2, column offset: at least 0"),
        ("id,lower,end,size\na,5,4,2\n", "line 2, column end: at least lower, 5, .* found 4"),
        (f"id,lower,end,size\na,5,{2**63 - 1},2\n", "line 2, column end: a last step below"),
        (f"{HEADER}\na,0,1\n", "line 2: as many cells as the header has, 4, .* found 3"),
        (f"{HEADER}\na,0,1,2\n\nb,0,1,2,3\n", "line 4: as many cells .* found 5"),
        (f"{HEADER}\na,0,1,2.5\n", f"line 2, column size: {NEEDS} '2.5'"),
        (f"{HEADER}\na,0,1,\n", f"line 2, column size: {NEEDS} ''"),
        (f"{HEADER}\na,0,1_0,2\n", f"line 2, column upper: {NEEDS} '1_0'"),
        (f"{HEADER}\na,0,1,\u0663\n", f"line 2, column size: {NEEDS} '\u0663'"),
        (f"{HEADER}\na,0,1,1 2\n", f"line 2, column size: {NEEDS} '1 2'"),
        (f"{HEADER}\na,0,1,9223372036854775808\n", f"line 2, column size: {NEEDS} '92233"),
        (f"{HEADER}\na,0,1,{'9' * 5000}\n", f"line 2, column size: {NEEDS} '9999"),
        (f"{HEADER}\na,0,1,2\nb,5,5,2\n", "line 3, column upper: above lower, 5, .* found 5"),
        (f"{HEADER}\na,0,1,-2\n", "line 2, column size: at least 0 is needed, found -2"),
        (f"{HEADER}\na,0,1,2\nb,0,1,2\na,0,1,2\n", "line 4, column id: .* found 'a' again"),
        (f"{HEADER}\na,0,1,{2**62}\n", "field size: .* must stay below"),
        (f'{HEADER}\n"a,0,1,2\n', "the text is no CSV"),
        (f"{HEADER}\n{'x' * 200_000},0,1,2\n", "line 2: the text is no CSV: field larger"),
        (HEADER.encode() + b"\n\xff,0,1,2\n", "the file is not UTF-8 text: byte 20"),
    ],
)
def test_a_wrong_cell_is_named_with_its_place(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InstanceError, match=message) as caught:
        read_minimalloc_csv(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_line_far_down_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimalloc_csv, "ROWS_AT_ONCE", 4)
    rows = [f"t{index},0,1,1" for index in range(10)]
    problem = read_minimalloc_csv(written(tmp_path, "\n".join([HEADER, *rows])))
    assert problem.tensor_name == tuple(f"t{index}" for index in range(10))
    rows[9] = "t9,0,1,one"
    with pytest.raises(InstanceError, match="line 11, column size"):
        read_minimalloc_csv(written(tmp_path, "\n".join([HEADER, *rows])))
    rows[9] = "t9,0,1"
    with pytest.raises(InstanceError, match="line 11: as many cells"):
        read_minimalloc_csv(written(tmp_path, "\n".join([HEADER, *rows])))


def test_rows_and_bytes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, f"{HEADER}\na,0,1,2\nb,0,1,2\n")
    monkeypatch.setattr(minimalloc_csv, "MAX_ROWS", 1)
    with pytest.raises(InstanceError, match="at most 1 rows are read, found more"):
        read_minimalloc_csv(path)
    monkeypatch.setattr(minimalloc_csv, "MAX_TEXT_BYTES", 10)
    with pytest.raises(InstanceError, match="at most 10 bytes are read, found more"):
        read_minimalloc_csv(path)


def test_a_header_is_recognised_without_the_suffix(tmp_path: Path) -> None:
    path = written(tmp_path, "size,END,start,buffer\n8,2,1,x\n", "table.txt")
    assert read_problem(path).size.tolist() == [8]
    assert not MINIMALLOC_CSV.recognises(path, b"a,b,c,d\n")


@pytest.mark.parametrize(
    ("fields", "offsets", "text"),
    [
        (
            {"start": [0, 3], "end": [3, 9], "tensor_name": ["b1", "b2"]},
            [8, 0],
            "id,lower,upper,size,offset\nb1,0,3,4,8\nb2,3,9,4,0\n",
        ),
        (
            {"start": [0, 0], "end": [9, 9], "alignment": [8, 1], "gaps": [[0, 5, 6], [0, 1, 3]]},
            None,
            "id,lower,upper,size,alignment,gaps\n0,0,9,4,8,1-3 5-6\n1,0,9,4,1,\n",
        ),
        ({"start": [0, 0], "end": [3, 3]}, None, "id,lower,upper,size\n0,0,3,4\n1,0,3,4\n"),
    ],
)
def test_the_text_is_what_minimalloc_writes(
    tmp_path: Path, fields: dict[str, Any], offsets: list[int] | None, text: str
) -> None:
    problem = Problem([4, 4], **fields)
    plan = None if offsets is None else Plan.of(problem, offsets)
    write_minimalloc_csv(problem, tmp_path / "a.csv", plan)
    assert (tmp_path / "a.csv").read_bytes() == text.encode()


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
def test_a_problem_that_the_format_cannot_hold_is_refused(
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


tensors = st.lists(
    st.tuples(
        st.integers(0, 2**40), st.integers(-99, 99), st.integers(3, 50), st.integers(0, 12),
        st.booleans(),
    ),
    min_size=1,
)  # fmt: skip


@given(tensors)
def test_problems_of_every_kind_are_written_and_read(
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
