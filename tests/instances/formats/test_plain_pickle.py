"""Plain pickles are read as Python reads them; every other one is refused, and nothing is run."""

from __future__ import annotations

import builtins
import collections
import contextlib
import os
import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats import plain_pickle
from instances.formats.plain_pickle import load_plain
from planners.errors import InstanceError
from planners.files.file_limits import Allowance

pytestmark = pytest.mark.core

plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**127), 2**127 - 1), st.text(), st.binary(),
        st.floats(allow_nan=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.text(), inner),
    ),
)  # fmt: skip


@given(value=plain, protocol=st.integers(3, 5))
def test_plain_values_are_read_as_python_reads_them(value: Any, protocol: int) -> None:
    assert load_plain(pickle.dumps(value, protocol=protocol)) == value


@given(value=st.lists(st.dictionaries(st.text(), st.integers(-(2**100), 2**100))))
def test_protocol_2_is_read(value: Any) -> None:
    assert load_plain(pickle.dumps(value, protocol=2)) == value


def test_more_entries_than_one_batch_and_shared_values() -> None:
    shared = {"filename": "a.py", "line": 3}
    value = {"x" * 300: [shared] * 3000, "y": {str(index): 2**40 + index for index in range(3000)}}
    again = load_plain(pickle.dumps(value))
    assert again == value
    assert again["x" * 300][0] is again["x" * 300][2999]


class Runs:
    """Runs a command when it is unpickled by the ordinary unpickler."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call = (call, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        Runs(os.system, "touch pwned"),
        Runs(builtins.eval, "open('pwned', 'w')"),
        Runs(open, "pwned", "w"),
        collections.OrderedDict(a=1),
        {1, 2},
        frozenset({1}),
        3j,
        bytearray(b"x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nothing_else_is_made_and_nothing_is_run(
    value: Any, protocol: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InstanceError, match=r"opcode|protocol 2 to 5"):
        load_plain(pickle.dumps({"segments": [value]}, protocol=protocol))
    assert list(tmp_path.iterdir()) == []


P4 = b"\x80\x04"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "protocol 2 to 5"),
        (b"\x80", "not a whole pickle"),
        (b"\x80\x06N.", "protocol 2 to 5"),
        (b"cos\nsystem\n(S'true'\ntR.", "protocol 2 to 5"),
        (P4 + b"cos\nsystem\n(S'true'\ntR.", "opcode GLOBAL"),
        (P4 + b"\x8c\x02os\x8c\x06system\x93.", "opcode STACK_GLOBAL"),
        (P4 + b"\x82\x01.", "opcode EXT1"),
        (P4 + b"}}b.", "opcode BUILD"),
        (P4 + b"K\x01Q.", "opcode BINPERSID"),
        (P4 + b"\x97.", "opcode NEXT_BUFFER"),
        (P4 + b"N2.", "opcode DUP"),
        (P4 + b"\xff.", "opcode 0xff"),
        (P4 + b".", "not a whole pickle"),
        (P4 + b"]", "not a whole pickle"),
        (P4 + b"e.", "not a whole pickle"),
        (P4 + b"K\x01\x86.", "not a whole pickle"),
        (P4 + b"h\x07.", "nothing is kept as 7"),
        (P4 + b"r\xff\xff\xff\xff.", "not a whole pickle"),
        (P4 + b"K\x01K\x02a.", "a value is put into no container"),
        (P4 + b"](a.", "not a whole pickle"),
        (P4 + b"\x95\x01" + bytes(7) + b"K\x01N.", "a frame ends within a value"),
        (P4 + b"\x95\x0a" + bytes(7) + b"\x95" + bytes(8) + b"N.", "a frame ends within a value"),
        (P4 + b"\x95\x09" + bytes(7) + b"N.", "9 bytes are to follow, found 2"),
        (P4 + b"}(K\x01K\x02u.", "a string as the key"),
        (P4 + b"}()K\x02u.", "a string as the key"),
        (P4 + b"}(\x8c\x01au.", "a value is put into no container"),
        (P4 + b"\x8c\x01\xff.", "not UTF-8"),
        (P4 + b"\x8d\xff\xff\xff\xff\xff\x00\x00\x00x.", "1099511627775 bytes are to follow"),
        (P4 + b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx.", "bytes are to follow, found 2"),
        (P4 + b"\x8a\xff" + b"\x01" * 255 + b".", "at most 16 bytes"),
        (P4 + b"\x8b\xff\xff\xff\x7f\x01.", "opcode LONG4"),
        (P4 + b"\x8a\x08\x01.", "a whole number of at most 16 bytes, all there"),
    ],
)
def test_damaged_and_malicious_pickles_are_one_error(data: bytes, message: str) -> None:
    with pytest.raises(InstanceError, match=message) as raised:
        load_plain(data)
    assert "\n" not in str(raised.value)


def test_a_huge_memo_index_takes_no_memory() -> None:
    tracemalloc.start()
    with pytest.raises(InstanceError, match="numbers that follow each other, found 4294967295"):
        load_plain(P4 + b"Nr\xff\xff\xff\xff.")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_deep_nesting_takes_no_stack() -> None:
    depth = 100_000
    value = load_plain(P4 + b"]" * depth + b"a" * (depth - 1) + b".")
    levels = 0
    while value:
        (value,) = value
        levels += 1
    assert levels == depth - 1


def test_tuples_nested_as_keys_are_not_hashed() -> None:
    doubling = b"".join(b"\x94h" + bytes([index]) + b"\x86" for index in range(200))
    with pytest.raises(InstanceError, match="a string as the key"):
        load_plain(P4 + b"}(K\x01" + doubling + b"Nu.")


def test_containers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "CONTAINERS", Allowance("containers", 3, 1 << 20))
    assert load_plain(pickle.dumps([[], {}])) == [[], {}]
    with pytest.raises(InstanceError, match="at most 3 containers"):
        load_plain(pickle.dumps([[], {}, []]))


@pytest.mark.parametrize("number", [300, 2**40])
def test_numbers_are_counted(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(plain_pickle, "MAX_SCALARS", 3)
    numbers = [number + index for index in range(4)]
    assert load_plain(pickle.dumps(numbers[:3])) == numbers[:3]
    with pytest.raises(InstanceError, match="3 numbers and strings are read, found more"):
        load_plain(pickle.dumps(numbers))


DUMPED = pickle.dumps({"segments": [{"address": 2**40, "x": (1, 2.5, None)}], "y": ["a", b"b"]})


@given(at=st.integers(0, len(DUMPED) - 1), byte=st.integers(0, 255), cut=st.booleans())
def test_a_changed_byte_gives_a_value_or_one_error(at: int, byte: int, cut: bool) -> None:
    data = DUMPED[:at] if cut else DUMPED[:at] + bytes([byte]) + DUMPED[at + 1 :]
    with contextlib.suppress(InstanceError):
        load_plain(data)


@given(st.binary())
def test_noise_gives_a_value_or_one_error(noise: bytes) -> None:
    with contextlib.suppress(InstanceError):
        load_plain(P4 + noise)


def test_values_larger_than_a_frame() -> None:
    value = {"a": ["x" * 70_000, b"y" * 200_000, "z"], "b": list(range(100_000))}
    for protocol in (2, 3, 4, 5):
        expected = value if protocol > 2 else {"a": ["x" * 70_000, "z"], "b": value["b"]}
        assert load_plain(pickle.dumps(expected, protocol=protocol)) == expected


@given(
    st.lists(st.sampled_from(P4[:1] + b"\x95NKMJG\x8a\x8cXC)]}\x85\x86\x87(tldaesu\x94qh.\0\1\2a"))
)
def test_opcodes_that_the_core_accepts_give_a_value_or_one_error(opcodes: list[int]) -> None:
    with contextlib.suppress(InstanceError):
        load_plain(P4 + bytes(opcodes) + b".")
