"""A sequence of requests that breaks a rule is refused, with the row that does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planners.errors import InstanceError
from planners.model.request_sequence import RequestAction, RequestSequence

ALLOCATE, REQUESTED, FREED, GIVE_BACK = RequestAction
# Two requests; the first one is freed in two steps, the second one in one.
SOUND = RequestSequence(
    "sound",
    action=np.array([ALLOCATE, ALLOCATE, REQUESTED, FREED, GIVE_BACK, FREED]),
    request=np.array([0, 1, 0, 1, 0, 0]),
    event=np.arange(6),
    size=np.array([4, 9]),
    stream=np.array([0, 0]),
    segments=np.array([[6, 0, 8, 16, 0]]),
    iteration_rows=np.array([0, 6]),
)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("action", [0, 0, 1, 2, 3, 4], "field action, row 5: 0 to 3 is needed, found 4"),
        ("action", [0, 0, 1, 2], "field request: one entry a row is needed, found 6 for 4 rows"),
        ("event", [0], "field event: one entry a row is needed, found 1 for 6 rows of field act"),
        ("stream", [0], "field stream: one entry a request is needed, found 1 for 2 requests"),
        ("address", [8], "field address: one entry a request is needed, or none, found 1 for 2"),
        ("size", [4.0, 9.0], "field size: one dimension of whole numbers is needed, found float64"),
        ("size", [[4, 9]], r"field size: one dimension .* found int64 of shape \(1, 2\)"),
        ("size", [4, 0], "field size, request 1: a request is for 1 byte or more, found 0"),
        ("size", [1 << 61, 1 << 61], "field size: all requests together must stay below"),
        ("request", [0, 1, 0, 1, 1, 0], "row 4: one of 2 requests is needed, 0 where .* found 1"),
        ("request", [0, 1, -1, 1, 0, 0], "row 2: one of 2 requests is needed, 0 where .* -1"),
        ("request", [1, 0, 0, 1, 0, 0], "field request: 2 requests are made once each, in the"),
        ("request", [0, 0, 0, 1, 0, 0], "field request: 2 requests are made once each, in the"),
        ("request", [0, 1, 0, 1, 0, 1], "row 5: a request is freed once, after .* request 1"),
        ("action", [0, 0, 1, 2, 3, 1], "row 5: a request is freed once, after .* request 0"),
        ("action", [0, 0, 2, 2, 3, 1], "row 2: a request is freed once, after .* request 0"),
        ("segments", [[0, 0, 0, 0]], "field segments: rows of 5 whole numbers are needed"),
        ("segments", [[7, 0, 0, 0, 0]], "field segments, entry 0: a row up to 6 is needed, and"),
        ("segments", [[0, 2, 0, 0, 0]], "field segments, entry 0: .* found 0 and 2"),
        ("iteration_rows", [0, 7], "field iteration_rows, entry 1: a row up to 6 is needed, fou"),
        ("iteration_rows", [[0]], "field iteration_rows: one dimension is needed, found 2"),
        ("module", [0, 0, 0, 0, 0, 2], "field module, row 5: 2 modules have names, found 2"),
        ("module_names", ("a", 1), "field module_names, module 1: a string of printable"),
    ],
)
def test_what_breaks_a_rule_is_named(field: str, value: object, message: str) -> None:
    names = {"module_names": ("a", "b")} if field == "module" else {}
    given = value if field == "module_names" else np.array(value)
    with pytest.raises(InstanceError, match=message):
        replace(SOUND, **{field: given}, **names)  # type: ignore[arg-type]


def test_nothing_is_freed_before_it_is_made() -> None:
    action = np.array([ALLOCATE, FREED, ALLOCATE, REQUESTED, GIVE_BACK, FREED])
    with pytest.raises(InstanceError, match="row 1: a request is freed once, after it was made"):
        replace(SOUND, action=action, request=np.array([0, 1, 1, 0, 0, 0]))


def test_a_request_that_never_ends_is_sound() -> None:
    assert replace(SOUND, action=SOUND.action[:2], request=SOUND.request[:2],
                   event=SOUND.event[:2], segments=SOUND.segments[:0],
                   iteration_rows=SOUND.iteration_rows[:1]).row_count == 2  # fmt: skip
