"""The reader of MiniMalloc CSV: what it takes, what it refuses, and how."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats import minimalloc_csv
from instances.formats.minimalloc_csv import MINIMALLOC_CSV, read_minimalloc_csv
from planners.errors import InstanceError
from planners.formats import read_any

HEADER = "id,lower,upper,size"


def written(folder: Path, text: str | bytes, name: str = "case.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_lifetimes_are_half_open_and_ids_become_names(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEADER}\nconv1,0,3,64\n7,-2,1,0\n", "A.1048576.csv")
    problem = read_any(path)
    assert problem.start.tolist() == [0, -2]
    assert problem.end.tolist() == [3, 1]
    assert problem.size.tolist() == [64, 0]
    assert problem.tensor_name == ("conv1", "7")
    assert problem.name == "A.1048576"
    assert problem.capacity is None


@pytest.mark.parametrize(
    "text",
    [
        "size,id,upper,lower\n64,conv1,3,0\n0,7,1,-2\n",
        f"{HEADER}\r\nconv1,0,3,64\r\n7,-2,1,0\r\n",
        f"\ufeff{HEADER}\nconv1,0,3,64\n7,-2,1,0",
        " id , lower , upper , size \nconv1, 0, 3, 64\n\n7,-2,1,0\n\n",
        f'{HEADER}\n"conv1",0,3,"64"\n7,-2,1,00\n',
    ],
    ids=["columns in another order", "CRLF", "byte order mark", "spaces and blank lines", "quotes"],
)
def test_the_same_table_written_otherwise(tmp_path: Path, text: str) -> None:
    problem = read_minimalloc_csv(written(tmp_path, text))
    assert problem.start.tolist() == [0, -2]
    assert problem.end.tolist() == [3, 1]
    assert problem.size.tolist() == [64, 0]
    assert problem.tensor_name == ("conv1", "7")


def test_a_header_alone_is_a_problem_without_tensors(tmp_path: Path) -> None:
    assert read_minimalloc_csv(written(tmp_path, HEADER)).tensor_count == 0


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
        (HEADER.encode() + b"\n\xff,0,1,2\n", "the file is no UTF-8 text: byte 20"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
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
    monkeypatch.setattr(minimalloc_csv, "MAX_FILE_BYTES", 10)
    with pytest.raises(InstanceError, match="at most 10 bytes are read, found more"):
        read_minimalloc_csv(path)


def test_a_missing_file_is_an_instance_error(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="the file cannot be read: No such file"):
        read_minimalloc_csv(tmp_path / "none.csv")


def test_a_header_is_recognised_without_the_suffix(tmp_path: Path) -> None:
    path = written(tmp_path, "size,upper,lower,id\n8,2,1,x\n", "table.txt")
    assert read_any(path).size.tolist() == [8]
    assert not MINIMALLOC_CSV.recognises(path, b"a,b,c,d\n")


rows = st.lists(st.tuples(st.integers(-(2**61), 2**61), st.integers(1, 2**60), st.integers(0, 99)))


@given(rows)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]
) -> None:
    lines = [f"t{i},{low},{low + length},{size}" for i, (low, length, size) in enumerate(rows)]
    path = written(tmp_path_factory.mktemp("round"), "\n".join([HEADER, *lines]))
    problem = read_minimalloc_csv(path)
    found = zip(problem.start.tolist(), problem.end.tolist(), problem.size.tolist(), strict=True)
    assert list(found) == [(low, low + length, size) for low, length, size in rows]


cells = st.sampled_from(["", "0", "-1", "5", "1e3", " 7", '"', '"8"', "x", "\x00", "9" * 19, "é"])
texts = st.one_of(
    st.text(),
    st.lists(st.lists(cells, min_size=3, max_size=5).map(",".join), max_size=6).map(
        lambda lines: "\n".join([HEADER, *lines])
    ),
)


@given(st.one_of(texts.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary()))
def test_only_instance_errors_come_out(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = written(tmp_path_factory.mktemp("fuzz"), data)
    with contextlib.suppress(InstanceError):
        read_minimalloc_csv(path)
