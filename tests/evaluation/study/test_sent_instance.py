"""What is sent to a worker arrives whole, and a forged message is refused, never unpickled."""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.study import sent_instance
from evaluation.study.sent_instance import COLUMNS, SentInstance, packed_requests, unpacked_requests
from planners.errors import InstanceError
from planners.model.problem import Problem
from planners.model.request_sequence import RequestAction, RequestSequence

PROBLEM = Problem([3, 5], [0, 1], [2, 3], name="two")
ALLOCATE, REQUESTED, FREED, GIVE_BACK = RequestAction
RECORDING = RequestSequence(
    "loop",
    action=np.array([ALLOCATE, ALLOCATE, REQUESTED, GIVE_BACK, FREED, FREED]),
    request=np.array([0, 1, 0, 0, 1, 0]),
    event=np.array([0, 2, 3, 5, 6, 9]),
    size=np.array([512, 1 << 40]),
    stream=np.array([0, 7]),
    is_recorded=True,
    address=np.array([1 << 46, 1 << 47]),
    segments=np.array([[1, 1, 1 << 46, 2 << 20, 7]]),
    iteration_rows=np.array([0, 3]),
    phase=np.array([-1, 0, 0, 1, 1, 2]),
    module=np.array([0, 1, 1, -1, 0, 1]),
    module_names=("layers.0", "größer"),
    pool=np.array([0, 3, 0, 3, 3, 0]),
)


def sent(requests: bytes | None) -> SentInstance:
    return replace(SentInstance.of(PROBLEM, None, family=None, digest="d"), requests=requests)


def forged(**changed: Any) -> bytes:
    """Return the recording with other arrays; None leaves one out."""
    with np.load(io.BytesIO(packed_requests(RECORDING))) as archive:
        arrays = {**archive, **changed}
    file = io.BytesIO()
    np.savez(file, **{name: its for name, its in arrays.items() if its is not None})
    return file.getvalue()


def test_a_recording_arrives_as_it_was_sent() -> None:
    there = SentInstance.of(PROBLEM, RECORDING, family=None, digest="d").unpacked_requests(PROBLEM)
    for field in fields(RequestSequence):
        mine, its = getattr(RECORDING, field.name), getattr(there, field.name)
        assert np.array_equal(mine, its), field.name
        assert type(its) is type(mine)


def test_without_a_recording_the_lifetimes_are_asked_for() -> None:
    assert sent(None).unpacked_requests(PROBLEM).size.tolist() == [3, 5]


class _Opens:
    """What runs as soon as a free unpickler meets it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return open, (str(self._path), "w")


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    marker = tmp_path / "opened"
    objects = np.array([_Opens(marker)], dtype=object)
    messages = [pickle.dumps(_Opens(marker)), forged(size=objects), forged(names=objects)]
    for message in messages:
        with pytest.raises(InstanceError, match="instance two, requests as they were sent: "):
            sent(message).unpacked_requests(PROBLEM)
    assert not marker.exists()


def names(text: str) -> dict[str, Any]:
    return {"names": np.frombuffer(text.encode(), np.uint8)}


MODULE = "field module_names, module 0: a string of printable"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *(({name: None}, f"array {name}: missing") for name in (*COLUMNS, "names")),
        (names("[]"), "array names: "),
        (names("{"), "array names: "),
        (names('{"name":1,"recorded":true,"modules":[]}'), "array names: "),
        (names('{"name":"a"}'), "array names: "),
        (names("[" * 99_999), "array names: "),
        (names('{"name":"a","recorded":true,"modules":[1]}'), MODULE),
        (names('{"name":"a","recorded":true,"modules":["a\\n"]}'), MODULE),
        ({"request": np.array([2, 1, 0, 0, 1, 0])}, "field request, row 0: one of 2 requests is"),
    ],
)
def test_refuses_forged_arrays(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        unpacked_requests(forged(**changed))


def test_refuses_instances_that_unpack_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_instance, "MOST_COLUMN_BYTES", 100)
    with pytest.raises(InstanceError, match="at most 100 bytes of arrays are taken"):
        unpacked_requests(packed_requests(RECORDING))
    monkeypatch.setattr(sent_instance, "MOST_TEXT_BYTES", 10)
    with pytest.raises(InstanceError, match="two, as it was sent: at most 10 bytes of text"):
        sent(None).unpacked()


@pytest.mark.parametrize("problem", [b"", b"x", zlib.compress(b"["), zlib.compress(b'{"size":[]}')])
def test_a_problem_is_whole_and_one_of_ours(problem: bytes) -> None:
    with pytest.raises(InstanceError, match="instance two, as it was sent: "):
        replace(sent(None), problem=problem).unpacked()
