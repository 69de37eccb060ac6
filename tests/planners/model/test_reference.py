"""The reference in the origin of a problem: kept by files, checked where it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from planners.errors import InstanceError
from planners.files.problem_file import problem_digest, read_gapless_json, write_problem
from planners.model.problem import Problem, Scalar
from planners.model.reference import Reference, reference_of, without_reference


def problem_with(origin: dict[str, Scalar]) -> Problem:
    return Problem([4], [0], [1], origin=origin)


@pytest.mark.parametrize("exact", [True, False])
def test_an_instance_file_keeps_it(tmp_path: Path, exact: bool) -> None:
    reference = Reference("PyTorch", 2 << 20, exact)
    problem = problem_with({"model": "bert", **reference.as_origin()})
    write_problem(problem, tmp_path / "a.json")
    assert reference_of(read_gapless_json(tmp_path / "a.json")) == reference
    assert problem_digest(problem) == problem_digest(problem_with({}))
    assert without_reference(problem.origin) == {"model": "bert"}
    assert reference.label == ("PyTorch reserved" if exact else "PyTorch reserved, at least")


def test_a_problem_need_have_none() -> None:
    assert reference_of(problem_with({"model": "bert"})) is None
    bare = reference_of(problem_with({"peak_reserved": 5}))
    assert bare == Reference("allocator", 5, exact=True)


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ({"peak_reserved": "5"}, "field origin.peak_reserved: whole bytes"),
        ({"peak_reserved": True}, "field origin.peak_reserved: whole bytes"),
        ({"peak_reserved": -1}, "field origin.peak_reserved: whole bytes"),
        ({"peak_reserved": 5.0}, "field origin.peak_reserved: whole bytes"),
        ({"peak_reserved": 5, "reserved_by": 3}, "field origin.reserved_by: a name"),
        ({"peak_reserved": 5, "reserved_by": "a\nb"}, "field origin.reserved_by: a name"),
        ({"peak_reserved": 5, "peak_reserved_is_exact": 1}, "exact: true or false"),
    ],
)
def test_an_origin_that_says_it_wrongly(origin: dict[str, Scalar], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        reference_of(problem_with(origin))
