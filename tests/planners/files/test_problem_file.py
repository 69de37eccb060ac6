"""The instance file: what is written comes back, and whatever else comes in is refused in words."""

from __future__ import annotations

import copy
import gzip
import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Graph, InstanceError, Memory, Problem, Safety, read_problem, write_problem
from planners.files.problem_file import FORMAT, problem_from_fields, problem_to_fields
from planners.model.problem import Scalar
from planners.testing.random_problems import random_problem

GRAPH = Graph(
    op=["matmul", "add", "matmul"],
    stream=[0, 7, 0],
    producer=[0, 1, 2],
    consumers=[[1, 2], [2], []],
    control=[(0, 2)],
)
ORIGIN: dict[str, Scalar] = {
    "model": "größe",
    "layers": 12,
    "rate": 0.5,
    "exact": True,
    "command": "a\nb",
}
EXAMPLES = {
    "lifetimes": Problem(
        [8, 16, 8, 0], [0, 1, 2, -3], [4, 5, 9, 1], alignment=[1, 8, 8, 1],
        contiguous=[(0, 1)], pinned={2: 64}, gaps=[(2, 5, 7), (0, 1, 2)],
        reuse_prices=[(3, 1, 7)], capacity=1 << 40,
        phase_start=[0, 0, 1, 1], phase_end=[1, 1, 2, 2], dynamic=[True, False, False, True],
        layer_start=[3, 3, 3, 3], layer_end=[4, 4, 4, 4],
        tensor_name=["weight", "größe", "", "x y"], name="everything", origin=ORIGIN,
    ),
    "graph": Problem([1, 2, 3], graph=GRAPH, contiguous=[(2, 0)], name="graph"),
    "pairs": Problem([1, 2, 3], unsafe_pairs=[(2, 0), (1, 2)], pinned={1: 0}),
    "empty": Problem([], [], []),
    "empty graph": Problem([], graph=Graph(op=[], stream=[], producer=[], consumers=[])),
    "no pairs": Problem([5], unsafe_pairs=[]),
    "memories": Problem(
        [4, 4, 9], [0, 0, 0], [2, 2, 2], together=[(0, 1)], apart=[(1, 2)], exclusive=[(2, 0)],
        memories=[Memory("fast", 0, 8, 2, ((0, 1), (4, 6))), Memory("slow", 64, 100)],
        places=[(2, 1, 7), (0, 0, 0)],
    ),
}  # fmt: skip
FIELDS = {name: problem_to_fields(problem) for name, problem in EXAMPLES.items()}
SUFFIXES = (".json", ".json.gz")


def assert_same(found: Any, expected: Any) -> None:
    """Compare two problems, or two graphs, field by field."""
    for field in type(expected).__dataclass_fields__:
        if field == "blocks":
            continue
        a, b = getattr(found, field), getattr(expected, field)
        assert type(a) is type(b), field
        if isinstance(b, Graph):
            assert_same(a, b)
        elif isinstance(b, np.ndarray):
            assert a.dtype == b.dtype, field
            assert a.shape == b.shape, field
            assert (a == b).all(), field
        else:
            assert a == b, field


def refusal(path: Path) -> str:
    """Return why a file is refused; one line that names the file, and no warning beside it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InstanceError) as caught:
            read_problem(path)
    message = str(caught.value)
    assert message.isprintable()
    assert message.startswith(f"{path}: ")
    assert len(message) < len(str(path)) + 400
    return message.removeprefix(f"{path}: ")


def refusal_of_bytes(data: bytes, folder: Path, name: str = "bad.json") -> str:
    path = folder / name
    path.write_bytes(data)
    return refusal(path)


def refusal_of(fields: Any, folder: Path) -> str:
    return refusal_of_bytes(json.dumps(fields).encode(), folder)


# ---- What is written comes back ------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_problem_comes_back_and_is_written_alike(name: str, suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    write_problem(EXAMPLES[name], first)
    found = read_problem(first)
    assert_same(found, EXAMPLES[name])
    write_problem(found, second)
    assert first.read_bytes() == second.read_bytes()


def test_every_field_of_a_problem_is_written() -> None:
    written = set().union(*FIELDS.values()) - {"format", "version"}
    assert written == set(Problem.__dataclass_fields__) - {"blocks"}


def test_a_gzipped_file_says_nothing_of_when_or_where(tmp_path: Path) -> None:
    write_problem(EXAMPLES["graph"], tmp_path / "a.json.gz")
    write_problem(EXAMPLES["graph"], tmp_path / "b.json")
    data = (tmp_path / "a.json.gz").read_bytes()
    assert gzip.decompress(data) == (tmp_path / "b.json").read_bytes()
    assert data[3:8] == bytes(5)  # no flags, hence no file name; time 0


def test_a_file_is_one_line_a_field(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_problem(Problem([1, 2], [0, 0], [1, 2]), path)
    assert path.read_text() == (
        '{\n"format": "gapless-problem",\n"version": 1,\n"name": "problem",\n"size": [1,2],\n'
        '"start": [0,0],\n"end": [1,2]\n}\n'
    )


@given(rng=st.randoms(use_true_random=False), safety=st.sampled_from(Safety))
def test_random_problems_come_back(rng: Random, safety: Safety) -> None:
    problem = random_problem(rng, safety)
    fields = json.loads(json.dumps(problem_to_fields(problem)))
    assert_same(problem_from_fields(fields), problem)


# ---- Faults of the file --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.json", "the file cannot be read: No such file or directory"),
        ("no.gz", "the file cannot be read: No such file or directory"),
        (".", "the file cannot be read: Is a directory"),
        ("a\0b.json", "no file can have this name: embedded null byte"),
    ],
)
def test_a_path_without_a_file_is_refused(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InstanceError) as caught:
        read_problem(tmp_path / name)
    assert str(caught.value).endswith(f": {reason}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("graph.json", "the file is not a whole JSON text: "),
        ("lifetimes.json", "the file is not a whole JSON text: |the file is not UTF-8 text: byte "),
        ("lifetimes.json.gz", "the file is not a whole gzip file: "),
    ],
)
def test_a_truncated_file_is_refused(name: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_problem(EXAMPLES[name.partition(".")[0]], path)
    data = path.read_bytes().rstrip(b"\n")
    for length in range(1, len(data)):
        assert re.match(message, refusal_of_bytes(data[:length], tmp_path, f"cut-{name}"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is not a whole JSON text: Expecting value at line 1, column 1"),
        (b"\n\n{]", "the file is not a whole JSON text: Expecting property name enclosed in double "
         "quotes at line 3, column 2"),
        (b"{} {}", "the file is not a whole JSON text: Extra data at line 1, column 4"),
        (b'{"a": 1, "a": 2}', "field a: given twice"),
        (b'{"origin": {"k\\n": 1, "k\\n": 2}}', "field 'k\\n': given twice"),
        (b'{"format": "\xff"}', "the file is not UTF-8 text: byte 12"),
        (b"\xef\xbb\xbf{}", "the file is not a whole JSON text: Unexpected UTF-8 BOM (decode using "
         "utf-8-sig) at line 1, column 1"),
        ('{"a": 1}'.encode("utf-16"), "the file is not UTF-8 text: byte 0"),
        (b"[" * 100_000, "not an instance: its lists are nested too deeply"),
        (b'{"a":' * 100_000, "not an instance: its lists are nested too deeply"),
        (b'{"size": [' + b"7" * 5000 + b"]}", "the file holds a whole number of too many digits"),
        (b"[1, 2]", "field file: an object is needed, found [1, 2]"),
        (b"null", "field file: an object is needed, found None"),
        (b"{}", "field format: missing, and every file needs it"),
    ],
)  # fmt: skip
def test_a_text_without_an_object_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    assert refusal_of_bytes(data, tmp_path) == message
    (tmp_path / "bad.json.gz").write_bytes(gzip.compress(data))
    assert refusal(tmp_path / "bad.json.gz") == message


@pytest.fixture
def usual_depth() -> Iterator[int]:
    """Set the depth of calls that Python begins with: packages of other tests allow more."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield 1000
    sys.setrecursionlimit(before)


def test_lists_nested_just_below_pythons_limit(usual_depth: int, tmp_path: Path) -> None:
    for field in ("size", "start", "origin", "graph", "contiguous", "capacity", "unknown"):
        for depth in range(2, usual_depth, 7):
            nested = json.loads("[" * 40 + "]" * 40)
            text = json.dumps({**FIELDS["lifetimes"], field: nested})
            deep = text.replace("[" * 40, "[" * depth).replace("]" * 40, "]" * depth)
            refusal_of_bytes(deep.encode(), tmp_path)


def test_a_file_that_is_called_gzipped_and_is_not_whole_is_refused(tmp_path: Path) -> None:
    message = refusal_of_bytes(b'{"format": 1}', tmp_path, "plain.json.gz")
    assert message == "the file is not a whole gzip file: Not a gzipped file (b'{\"')"
    data = bytearray(gzip.compress(b"{}"))
    data[-8] ^= 1
    message = refusal_of_bytes(bytes(data), tmp_path, "b.json.gz")
    assert message.startswith("the file is not a whole gzip file: CRC check failed")


def test_a_file_larger_than_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_problem(EXAMPLES["pairs"], path)
    monkeypatch.setattr("planners.files.json_file.MAX_TEXT_BYTES", path.stat().st_size)
    read_problem(path)
    monkeypatch.setattr("planners.files.json_file.MAX_TEXT_BYTES", path.stat().st_size - 1)
    message = f"the file holds more than {path.stat().st_size - 1} bytes of JSON"
    assert refusal(path) == message
    write_problem(EXAMPLES["pairs"], tmp_path / "a.json.gz")
    assert refusal(tmp_path / "a.json.gz") == message


# ---- Faults of the fields ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "path", "value", "message"),
    [
        ("pairs", "format", "gapless", f"field format: '{FORMAT}' is needed, found 'gapless'"),
        ("pairs", "version", 2, "field version: 1 (the only one so far) is needed, found 2"),
        ("pairs", "version", 1.0, "field version: 1 (the only one so far) is needed, found 1.0"),
        ("pairs", "colour\n", 1, "field 'colour\\n': unknown; known fields are alignment, apart, "
         "capacity, contiguous, dynamic, end, exclusive, format, gaps, graph, layer_end, "
         "layer_start, memories, name, origin, phase_end, phase_start, pinned, places, "
         "reuse_prices, size, start, tensor_name, together, unsafe_pairs, version"),
        ("graph", "graph.colour", 1, "field graph.colour: unknown; known fields are consumers, "
         "control, op, op_names, producer, stream, work"),
        ("pairs", "size", "123", "field size: a list is needed, found '123'"),
        ("pairs", "size.1", 2.0, "field size, tensor 1: a whole number that fits int64 is needed, "
         "found 2.0"),
        ("lifetimes", "start", None, "field start: a list is needed, found None"),
        ("lifetimes", "capacity", None, "field capacity: a whole number of bytes is needed, found "
         "None"),
        ("lifetimes", "name", "\ud83d", "field name: a string of printable characters is needed, "
         "found '\\ud83d'"),
        ("lifetimes", "origin", None, "field origin: an object is needed, found None"),
        ("lifetimes", "origin.rate", float("inf"), "field origin, key 'rate': a string of Unicode "
         "characters, a whole number that fits int64, a finite number or a boolean is needed, "
         "found inf"),
        ("lifetimes", "dynamic.3", 1, "field dynamic, tensor 3: true or false is needed, found 1"),
        ("lifetimes", "contiguous", [[0, 9]], "field contiguous, chain 0: tensors are numbered 0 "
         "to 3, found 9"),
        ("lifetimes", "pinned", [[2, 64], [2, 64]], "field pinned, tensor 2: given twice"),
        ("lifetimes", "pinned", [[9, 64]], "field pinned, entry 0: tensors are numbered 0 to 3, "
         "found 9"),
        ("graph", "graph.op_names", [["a"]], "field graph.op_names, entry 0: a string of printable "
         "characters is needed, found ['a']"),
        ("graph", "graph.op.2", True, "field graph.op, node 2: an index into the 2 op_names is "
         "needed, found True"),
        ("graph", "graph.consumers.0.1", 3, "field graph.consumers, tensor 0: nodes are numbered 0 "
         "to 2, found 3"),
    ],
)  # fmt: skip
def test_a_field_that_breaks_a_rule_is_refused(
    example: str, path: str, value: object, message: str, tmp_path: Path
) -> None:
    fields = copy.deepcopy(FIELDS[example])
    *parents, last = path.split(".")
    owner: Any = fields
    for key in parents:
        owner = owner[key] if isinstance(owner, dict) else owner[int(key)]
    owner[last if isinstance(owner, dict) else int(last)] = value
    assert refusal_of(fields, tmp_path) == message
