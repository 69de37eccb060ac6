"""Plain pickles are read as Python reads them; every other one is refused, and nothing is run."""

from __future__ import annotations

import builtins
import collections
import contextlib
import io
import os
import pickle
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats import plain_pickle
from instances.formats.plain_pickle import load_plain
from planners.errors import InstanceError
from planners.files.file_limits import Allowance

pytestmark = pytest.mark.core


def load(data: bytes, at_once: int = 1 << 20) -> Any:
    """Read a pickle in pieces."""
    return load_plain(
        lambda: [data[at : at + at_once] for at in range(0, len(data), at_once)], len(data)
    )


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


@given(value=plain, protocol=st.integers(3, 5), at_once=st.integers(1, 9))
def test_plain_values_are_read_as_python_reads_them(
    value: Any, protocol: int, at_once: int
) -> None:
    assert load(pickle.dumps(value, protocol=protocol), at_once) == value


@given(value=st.lists(st.dictionaries(st.text(), st.integers(-(2**100), 2**100))))
def test_protocol_2_is_read(value: Any) -> None:
    assert load(pickle.dumps(value, protocol=2)) == value


def test_more_entries_than_one_batch_and_shared_values() -> None:
    shared = {"filename": "a.py", "line": 3}
    value = {"x" * 300: [shared] * 3000, "y": {str(index): 2**40 + index for index in range(3000)}}
    again = load(pickle.dumps(value))
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
        load(pickle.dumps({"segments": [value]}, protocol=protocol))
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
        load(data)
    assert "\n" not in str(raised.value)


def test_a_huge_memo_index_takes_no_memory() -> None:
    tracemalloc.start()
    with pytest.raises(InstanceError, match="numbers that follow each other, found 4294967295"):
        load(P4 + b"Nr\xff\xff\xff\xff.")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_deep_nesting_takes_no_stack() -> None:
    depth = 100_000
    value = load(P4 + b"]" * depth + b"a" * (depth - 1) + b".")
    levels = 0
    while value:
        (value,) = value
        levels += 1
    assert levels == depth - 1


def test_tuples_nested_as_keys_are_not_hashed() -> None:
    doubling = b"".join(b"\x94h" + bytes([index]) + b"\x86" for index in range(200))
    with pytest.raises(InstanceError, match="a string as the key"):
        load(P4 + b"}(K\x01" + doubling + b"Nu.")


@pytest.mark.parametrize("values", [[[], {}, (1,)], [300, 2**40, "a"], ["ab"] * 20, b"]" * 9])
def test_memory_is_counted(values: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = values if isinstance(values, bytes) else pickle.dumps(values)
    monkeypatch.setattr(plain_pickle, "MEMORY", Allowance("bytes of memory", 1 << 11, 1 << 20))
    if not isinstance(values, bytes):
        assert load(data) == values
    monkeypatch.setattr(plain_pickle, "MEMORY", Allowance("bytes of memory", 300, 1 << 20))
    with pytest.raises(InstanceError, match="may ask for 300 bytes of memory, found more"):
        load(P4 + data if isinstance(values, bytes) else data)


class Taken(list[Any]):
    """Takes the entries of a list, and keeps no more than their number and sum."""

    made: ClassVar[list[Taken]] = []

    def __init__(self) -> None:
        super().__init__()
        self.count = self.sum = self.most = 0
        self.made.append(self)

    def append(self, entry: Any) -> None:
        self.extend([entry])

    def extend(self, entries: Iterable[Any]) -> None:
        taken = list(entries)
        self.count += len(taken)
        self.most = max(self.most, len(taken))
        self.sum += sum(len(entry["frames"]) * entry["size"] for entry in taken)


def shared_frames(events: int) -> list[dict[str, Any]]:
    """Return events of which each has a list of frames of its own, or that of the one before."""
    shared = [{"name": f"f{number}", "line": number} for number in range(60)]
    found: list[dict[str, Any]] = []
    for number in range(events):
        frames = found[-1]["frames"] if number % 3 == 2 else shared[number % 7 :]
        found.append({"frames": frames, "size": number})
    return found


@pytest.mark.parametrize("events", [0, 1, 2, 1000, 1001, 9000])
@pytest.mark.parametrize("is_one_batch", [False, True])
def test_entries_are_taken_batch_by_batch(
    events: int, is_one_batch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Taken, "made", [])
    entries = shared_frames(events)
    if is_one_batch:
        # The pickler of PyTorch's C++ writes a list as one batch.
        monkeypatch.setattr(pickle._Pickler, "_BATCHSIZE", 1 << 30)  # type: ignore[attr-defined]
    file = io.BytesIO()
    pickle._Pickler(file).dump({"a": [[], entries, entries], "b": [1]})  # type: ignore[attr-defined]
    data = file.getvalue()
    tracemalloc.start()

    def pieces() -> Iterator[bytes]:  # one by one, as a file is read
        return (data[at : at + 4096] for at in range(0, len(data), 4096))

    value = load_plain(pieces, len(data), Taken)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    empty, first, second = value["a"]
    assert value["b"] == [1]
    assert first is second
    assert empty.count == 0
    assert first.count == events
    assert first.most <= 1024
    assert first.sum == sum(len(entry["frames"]) * entry["size"] for entry in entries)
    # Only frames that are used again are kept: a list of 60 takes 536 bytes.
    assert peak < 4 << 20


def test_what_is_kept_counts_until_its_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MEMORY", Allowance("bytes of memory", 1 << 20, 1 << 40))
    dropped = [{"frames": [{}, {}], "size": 1} for _ in range(20_000)]
    data = pickle.dumps({"a": [[], dropped]})
    # The numbers of what a pickle keeps take memory here.
    monkeypatch.setattr(plain_pickle, "MEMORY", Allowance("bytes of memory", 3 << 20, 1 << 40))
    load_plain(lambda: [data], len(data), Taken)
    kept = pickle.dumps({"a": [[], dropped], "b": [one["frames"] for one in dropped]})
    with pytest.raises(InstanceError, match="bytes of memory, found more"):
        load_plain(lambda: [kept], len(kept), Taken)


@pytest.mark.parametrize("data", [b"]](NQe.", b"](](cos\nsystem\nNRee.", b"]](](}\x8c\x01aNQsee."])
def test_nothing_is_run_in_a_list_whose_entries_are_taken(data: bytes) -> None:
    with pytest.raises(InstanceError, match=r"found the opcode (BINPERSID|GLOBAL)"):
        load_plain(lambda: [P4 + data], len(data), Taken)


def test_a_file_that_changes_while_it_is_read_is_one_error() -> None:
    forms = iter([pickle.dumps([[1], [2]]), pickle.dumps([one := [1], one, one])])
    with pytest.raises(InstanceError, match="nothing is kept as 1"):
        load_plain(lambda: [next(forms)], 99)


DUMPED = pickle.dumps({"segments": [{"address": 2**40, "x": (1, 2.5, None)}], "y": ["a", b"b"]})


@given(at=st.integers(0, len(DUMPED) - 1), byte=st.integers(0, 255), cut=st.booleans())
def test_a_changed_byte_gives_a_value_or_one_error(at: int, byte: int, cut: bool) -> None:
    data = DUMPED[:at] if cut else DUMPED[:at] + bytes([byte]) + DUMPED[at + 1 :]
    with contextlib.suppress(InstanceError):
        load(data)


@given(st.binary())
def test_noise_gives_a_value_or_one_error(noise: bytes) -> None:
    with contextlib.suppress(InstanceError):
        load(P4 + noise)


def test_values_larger_than_a_frame() -> None:
    value = {"a": ["x" * 70_000, b"y" * 200_000, "z"], "b": list(range(100_000))}
    for protocol in (2, 3, 4, 5):
        expected = value if protocol > 2 else {"a": ["x" * 70_000, "z"], "b": value["b"]}
        assert load(pickle.dumps(expected, protocol=protocol)) == expected


@given(
    st.lists(st.sampled_from(P4[:1] + b"\x95NKMJG\x8a\x8cXC)]}\x85\x86\x87(tldaesu\x94qh.\0\1\2a"))
)
def test_opcodes_that_the_core_accepts_give_a_value_or_one_error(opcodes: list[int]) -> None:
    with contextlib.suppress(InstanceError):
        load(P4 + bytes(opcodes) + b".")
