"""Structured problems of a compiler's solver are read as problems with prices of reuse."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from planners.errors import InstanceError
from planners.files.formats import read_problem
from tests.instances.formats.structured_problem import STRUCTURED


def read(tmp_path: Path, **constraints: Any) -> Any:
    fields = copy.deepcopy(STRUCTURED)
    fields["problem"]["constraints"] |= constraints
    path = tmp_path / "a.dsa.json"
    path.write_text(json.dumps(fields))
    return read_problem(path)


def test_lifetimes_and_prices_are_read(tmp_path: Path) -> None:
    problem = read(tmp_path)
    assert (problem.name, problem.capacity) == ("example", 96)
    assert (problem.start.tolist(), problem.end.tolist()) == ([0, 2, 3], [2, 8, 5])
    assert problem.gaps.tolist() == [[1, 4, 6]]
    assert problem.reuse_prices.tolist() == [[0, 1, 3]]
    assert (problem.alignment.tolist(), problem.tensor_name) == ([8] * 3, ("b7", "b9", "b8"))


@pytest.mark.parametrize("first", ["schema_version", "instance", "profile"])
def test_fields_may_stand_in_any_order(first: str, tmp_path: Path) -> None:
    fields = {first: STRUCTURED[first], **STRUCTURED}
    (tmp_path / "a.json").write_text(json.dumps(fields))
    assert read_problem(tmp_path / "a.json").name == "example"


def test_separations_and_exclusions_are_pairs(tmp_path: Path) -> None:
    pair, other = {"first": 7, "second": 8}, {"first": 9, "second": 8}
    assert read(tmp_path, separations=[pair]).unsafe_pairs.tolist() == [[0, 2], [1, 2]]
    assert read(tmp_path, temporal_exclusions=[other]).unsafe_pairs.tolist() == []


def test_pins_and_reserved_ranges_are_pinned_tensors(tmp_path: Path) -> None:
    pin = {"buffer": 9, "pool": 4, "offset": 64, "exclusive_for_all_time": True}
    pinned = read(tmp_path, pinned_allocations=[pin])
    assert pinned.pinned.tolist() == [-1, 64, -1]
    assert pinned.unsafe_pairs.tolist() == [[0, 1], [1, 2]]
    fields = copy.deepcopy(STRUCTURED)
    fields["problem"]["pools"][0]["reserved_ranges"] = [{"begin": 8, "end": 24}]
    (tmp_path / "b.json").write_text(json.dumps(fields))
    reserved = read_problem(tmp_path / "b.json")
    assert (reserved.size.tolist(), reserved.pinned.tolist()) == ([64, 32, 16, 16], [-1, -1, -1, 8])
    assert (reserved.start[3], reserved.end[3]) == (0, 8)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("buffers",), [], "problem.buffers: 1 to 4096 buffers is needed, found 0"),
        (("buffers", 0, "allowed_pools"), [4, 5], "allowed_pools: one memory for all buffers is "
         "needed, found [4, 5]"),
        (("buffers", 0, "size"), -1, "size: a whole number from 0 to 2**63 - 1 is needed"),
        (("buffers", 0, "live_intervals"), [], "live_intervals: at least one interval"),
        (("constraints", "colocations"), [{}], "colocations: buffers at one address are not"),
        (("constraints", "separations"), [{"first": 7, "second": 1}], "first and second: the id of "
         "a buffer is needed, found 1"),
        (("objective", "terms"), ["bank_cost"], "objective: the cost of banks is not supported"),
        (("pools",), 3, "pools: a list is needed, found 3"),
        (("constraints",), None, "constraints: an object is needed, found None"),
    ],
)  # fmt: skip
def test_refuses_a_wrong_field(
    path: tuple[Any, ...], value: object, message: str, tmp_path: Path
) -> None:
    fields = copy.deepcopy(STRUCTURED)
    inner: Any = fields["problem"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    (tmp_path / "a.json").write_text(json.dumps(fields))
    with pytest.raises(InstanceError) as refused:
        read_problem(tmp_path / "a.json")
    assert f": field {message}" in str(refused.value)
