"""Files that unfold, nest or repeat: read or refused within a little memory and processor time.

Each runs in a child that may map so many MiB more than the test itself, and is killed after so many
seconds of processor time; the bytes that each is given are told beside it.
"""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from instances.formats.recorded_trace import ARRAYS
from planners import Problem, write_problem
from planners.errors import MAX_MESSAGE_CHARACTERS, GaplessError, InstanceError
from planners.files.formats import formats, read_problem
from planners.files.recording_slice import RecordingSlice
from planners.text.plain_text import shown
from tests.fuzz.limited_child import MIB, limit_cpu, lines_of_child

SECONDS = 4
P4 = b"\x80\x04"
NAMES = np.array(["alloc", "free_requested", "free_completed"])


def unfolding_json(inner: bytes) -> bytes:
    """A hundred megabytes of values in a hundred kilobytes."""
    text = b'{"format": "gapless-problem", "version": 1, "size": [' + inner * (10**8 // len(inner))
    return gzip.compress(text + b"0]}", 1)


def archive(**arrays: object) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def widening_column() -> bytes:
    """One byte an entry, eight once it is read, and a few thousand of them in one of the file."""
    return archive(action=np.zeros(10**8, np.int8), addr=NAMES, size=NAMES, names=NAMES)


def long_name() -> bytes:
    nothing = np.zeros(1, np.int8)
    return archive(action=nothing, addr=nothing, size=nothing, names=np.array(["a" * 10**6]))


def many_members() -> bytes:
    """A directory of a million entries, all of them the same empty member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(zipfile.ZipInfo("a"), b"")
    data, entry = file.getvalue(), file.getvalue().index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    directory = data[entry:end] * 1_000_000
    ends = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, len(directory), entry, 0)
    return data[:entry] + directory + ends


def snapshot_of(inner: bytes) -> bytes:
    return P4 + b"}\x8c\x08segments(" + inner + b"ls\x8c\x0ddevice_tracesNs."


def array_that_claims(shape: str) -> bytes:
    """Arrays of eight bytes that are said to have many more."""
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({shape},)}}".ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"\0" * 8
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name in ARRAYS:
            made.writestr(f"{name}.npy", data)
    return file.getvalue()


def nested_modules() -> bytes:
    starts = [f"a{depth}->b Layer : F-start\n" for depth in range(60_000)]
    ends = [start.replace("start", "end") for start in reversed(starts)]
    return ("Iteration Index : 0\n" + "".join([*starts, *ends])).encode()


def many_iterations() -> bytes:
    """Each with a request of a size of its own, and a last one with many."""
    text = [f"Iteration Index : {number}\n1 {number * 512 + 512:#x} {number} 0\n"
            for number in range(6000)]  # fmt: skip
    text += [f"1 {(1 << 40) + number * 512:#x} {number} 0\n" for number in range(6000)]
    return "".join(text).encode()


def cycle() -> bytes:
    nodes = 200_000
    arcs = ",".join(f"[{node},{(node + 1) % nodes}]" for node in range(nodes))
    zeros = ",".join("0" * nodes)
    return (
        '{"format": "gapless-problem", "version": 1, "size": [], "graph": {"op_names": ["a"], '
        f'"op": [{zeros}], "stream": [{zeros}], "producer": [], "consumers": [], '
        f'"control": [{arcs}]}}}}'
    ).encode()


def long_operator() -> bytes:
    """A name of half a megabyte, which 200,000 nodes have."""
    zeros = ",".join("0" * 200_000)
    return (
        '{"format": "gapless-problem", "version": 1, "size": [], "graph": {"op_names": ["'
        f'{"a" * 500_000}"], "op": [{zeros}], "stream": [{zeros}], "producer": [], '
        '"consumers": [], "control": []}}'
    ).encode()


def shared_blocks() -> bytes:
    """A thousand blocks, which 30,000 segments have."""
    blocks = [{"size": 1, "state": "active_allocated"} for _ in range(1000)]
    segments = [{"address": at * 1000, "stream": 0, "blocks": blocks} for at in range(30_000)]
    return pickle.dumps({"segments": segments, "device_traces": [[]]}, 4)


# Name, what makes it, MiB, what it is answered with; None where it is read.
BOMBS: list[tuple[str, Callable[[], bytes], int, str | None]] = [
    ("lists.json.gz", lambda: unfolding_json(b"[],"), 300, "may unfold to at most"),
    ("entries.json.gz", lambda: unfolding_json(b'{"":0},'), 300, "may unfold to at most"),
    ("nested.json.gz", lambda: unfolding_json(b"[[0]],"), 300, "may unfold to at most"),
    ("strings.json.gz", lambda: unfolding_json(b'"ab",'), 300, "may unfold to at most"),
    ("cycle.json", cycle, 400, "must not form a cycle"),
    ("operator.json", long_operator, 400, None),
    ("blocks.pickle", shared_blocks, 300, "blocks of segments, found"),
    ("claims.npz", lambda: array_that_claims("4, 33554432"), 100, "found 8"),
    ("line.csv", lambda: b"id,lower,upper,size\na,0,1," + b"7" * (4 * MIB), 100, "no CSV"),
    ("line.txt", lambda: b"1 0xa 8 0\n" + b"7" * (4 * MIB), 100, "is needed, found"),
    ("widens.npz", widening_column, 300, "bytes of arrays are taken"),
    ("name.npz", long_name, 200, "'alloc' is needed"),
    ("members.npz", many_members, 300, "at most 1024 arrays"),
    ("nothings.pickle", lambda: snapshot_of(b"N" * 20_000_000), 500, "bytes of memory"),
    ("lists.pickle", lambda: snapshot_of(b"]" * 8_000_000), 300, "bytes of memory"),
    ("memo.pickle", lambda: snapshot_of(b"]" + b"\x94" * 8_000_000), 300, "a dict"),
    ("tuples.pickle", lambda: snapshot_of(b"N" + b"\x85" * 8_000_000), 300, "bytes of memory"),
    ("gap.txt", lambda: b"Iteration Index : 0\n1 0x200 8 0\nIteration Index : 999999999\n", 100,
     None),
    ("modules.txt", nested_modules, 300, None),
    ("iterations.txt", many_iterations, 300, None),
    ("arrows.txt", lambda: b"Iteration Index : 0\n" + b"a->" * 200_000, 100, "is needed, found"),
]  # fmt: skip


def require_answer(path: Path, answer: str | None, *, mib: int, seconds: int = SECONDS) -> None:
    """Require that a child which may take little reads a file, or refuses it with an answer."""
    formats()
    recording_slice = RecordingSlice(-1) if path.suffix == ".txt" else RecordingSlice()

    def read(say: Callable[[str], None]) -> None:
        limit_cpu(seconds)
        try:
            say(f"{read_problem(path, recording_slice).tensor_count} tensors")
        except GaplessError as error:
            say(str(error))

    (said,) = lines_of_child(read, mib * MIB)
    assert len(said) <= MAX_MESSAGE_CHARACTERS
    if answer is None:
        assert said.endswith(" tensors")
    else:
        assert f"{path.name}: " in said
        assert answer in said


@pytest.mark.parametrize(("name", "make", "mib", "answer"), BOMBS, ids=[bomb[0] for bomb in BOMBS])
def test_a_bomb_takes_little(
    tmp_path: Path, name: str, make: Callable[[], bytes], mib: int, answer: str | None
) -> None:
    path = tmp_path / name
    path.write_bytes(make())
    require_answer(path, answer, mib=mib)


def test_a_message_is_one_line_of_bounded_length() -> None:
    error = InstanceError("a\nb\x1b[31m" + "x" * 10**6 + "end")
    assert str(error).startswith(r"a b\x1b[31mxxx")
    assert str(error).endswith("xxxend")
    assert len(str(error)) < MAX_MESSAGE_CHARACTERS + 10
    assert str(InstanceError(shown("ä"))) == "'ä'"


def test_a_large_file_of_equal_tensors_is_read_back(tmp_path: Path) -> None:
    many = 500_000
    problem = Problem(np.full(many, 8), np.zeros(many, np.int64), np.ones(many, np.int64))
    write_problem(problem, tmp_path / "alike.json.gz")
    assert read_problem(tmp_path / "alike.json.gz").tensor_count == many
