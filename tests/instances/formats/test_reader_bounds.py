"""Small files that claim, or unfold to, a great deal are refused in little memory."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from instances.formats import recorded_trace
from planners.errors import InstanceError
from planners.files.formats import read_problem

MIB = 1 << 20


def zip_bomb(path: Path) -> None:
    """Eight arrays of zeros, a thousandth of their size as a file."""
    np.savez_compressed(path, **{f"a{index}": np.zeros(MIB, dtype=np.int64) for index in range(8)})


def array_that_claims(shape: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        header = (
            f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({shape},)}}".ljust(117) + "\n"
        )
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"\0" * 8
        with zipfile.ZipFile(path, "w") as archive:
            for name in recorded_trace.ARRAYS:
                archive.writestr(f"{name}.npy", data)

    return write


def string_that_claims(size: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(b"\x80\x04\x8d" + struct.pack("<Q", size) + b"segments.")

    return write


def memo_bomb(path: Path) -> None:
    path.write_bytes(b"\x80\x04\x8c\x08segmentsr\xff\xff\xff\xff.")


def doubling_tuples(path: Path) -> None:
    doubling = b"".join(b"\x94h" + bytes([index]) + b"\x86" for index in range(200))
    path.write_bytes(b"\x80\x04}\x8c\x08segmentsK\x01" + doubling + b"s.")


def long_line(prefix: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(prefix + "7" * (4 * MIB))

    return write


@pytest.mark.parametrize(
    ("name", "write", "most"),
    [
        ("bomb.npz", zip_bomb, 8 * MIB),
        ("claims.npz", array_that_claims(str(10**15)), 8 * MIB),
        ("claims-less.npz", array_that_claims("4, 2097152"), 8 * MIB),
        ("claims.pickle", string_that_claims(1 << 62), 8 * MIB),
        ("claims-less.pickle", string_that_claims(1 << 30), 8 * MIB),
        ("memo.pickle", memo_bomb, 8 * MIB),
        ("doubling.pickle", doubling_tuples, 8 * MIB),
        ("line.csv", long_line("id,lower,upper,size\na,0,1,"), 64 * MIB),
        ("line.txt", long_line("1 0xa 8 0\n"), 64 * MIB),
        ("iteration.txt", long_line("Iteration Index : 0\nIteration Index : "), 64 * MIB),
    ],
)
def test_a_bomb_is_refused_in_little_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    write: Callable[[Path], None],
    most: int,
) -> None:
    monkeypatch.setattr(recorded_trace, "MAX_BYTES", 4 * MIB)
    write(tmp_path / name)
    tracemalloc.start()
    try:
        with pytest.raises(InstanceError) as raised:
            read_problem(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500 + len(str(tmp_path))
