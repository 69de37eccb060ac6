"""Structured problems of a compiler's solver: read, written, and planned as its schema says."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from instances.convert.conversion import Conversion, convert
from instances.formats.dsa_problem import read_dsa_problem
from instances.formats.dsa_solution import (
    fingerprint_of,
    read_dsa_solution,
    write_dsa_solution,
)
from instances.formats.dsa_target import write_dsa_problem
from planners import Graph, Memory, Plan, Problem, write_problem
from planners.errors import InstanceError
from planners.files.formats import read_problem
from planners.files.problem_file import problem_to_fields
from planners.model.places import block_places
from planners.model.plan import feasible
from planners.referee.naive import find_violation, plan_cost
from tests.instances.formats.structured_problem import (
    STRUCTURED,
    cost_by_the_schema,
    random_document,
)

PIN = {"buffer": 7, "pool": 4, "offset": 0, "exclusive_for_all_time": False}


def written(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps(document))
    return path


def placements(rng: Random, document: dict[str, Any]) -> dict[int, tuple[int, int]]:
    """Return random placements, of which some keep all rules."""
    placed: dict[int, tuple[int, int]] = {}
    for buffer in document["problem"]["buffers"]:
        pool = rng.choice(buffer["allowed_pools"] if rng.random() < 0.9 else [10])
        placed[buffer["id"]] = pool, buffer["alignment"] * rng.randrange(12 // buffer["alignment"])
    for pair in document["problem"]["constraints"]["colocations"]:
        placed[pair["second"]] = placed[pair["first"]]
    for pin in document["problem"]["constraints"]["pinned_allocations"]:
        placed[pin["buffer"]] = pin["pool"], pin["offset"]
    return placed


def plan_of(problem: Problem, document: dict[str, Any], placed: dict[int, tuple[int, int]]) -> Plan:
    number = {pool["id"]: index for index, pool in enumerate(document["problem"]["pools"])}
    offsets = []
    for size, (pool, offset) in zip(problem.size.tolist(), placed.values(), strict=True):
        memory = problem.memories[number[pool]] if problem.memories else Memory("all", 0, 1 << 60)
        # Bytes above a memory are in none, and not in the next one.
        beyond = offset + size > memory.capacity
        offsets.append((problem.memories[-1].end if beyond else memory.begin) + offset)
    return Plan.of(problem, offsets)


def test_a_problem_says_what_the_schema_says(tmp_path: Path) -> None:
    kept = paid = 0
    for seed in range(400):
        rng = Random(seed)
        document = random_document(rng)
        problem = read_problem(written(tmp_path / "a.json", document))
        for _ in range(30):
            placed = placements(rng, document)
            plan = plan_of(problem, document, placed)
            is_valid = find_violation(problem, plan) is None
            is_valid &= problem.capacity is None or plan.peak <= problem.capacity
            cost = cost_by_the_schema(document, placed)
            assert (plan_cost(problem, plan.offsets) if is_valid else None) == cost, seed
            kept += cost is not None
            paid += bool(cost)
    assert kept >= 1000
    assert paid >= 100


def fields_of(problem: Problem) -> dict[str, Any]:
    """Return the fields of a problem; where it may lie as rows of blocks."""
    fields = problem_to_fields(problem)
    fields["places"] = block_places(problem).tolist()
    return {name: value for name, value in fields.items() if name != "origin"}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    for seed in range(200):
        problem = read_problem(written(tmp_path / "a.json", random_document(Random(seed))))
        write_dsa_problem(problem, tmp_path / "b.dsa.json")
        assert fields_of(read_problem(tmp_path / "b.dsa.json")) == fields_of(problem), seed


def test_a_solution_is_read_again_for_its_problem_alone(tmp_path: Path) -> None:
    count = 0
    for seed in range(60):
        rng = Random(seed)
        document = random_document(rng)
        source = written(tmp_path / "a.json", document)
        problem = read_dsa_problem(source)
        for _ in range(40):
            placed = placements(rng, document)
            if cost_by_the_schema(document, placed) is None:
                continue
            rows = [{"buffer": b, "pool": p, "offset": o} for b, (p, o) in placed.items()]
            head = {key: document[key] for key in ("schema_version", "profile", "instance")}
            head["problem_fingerprint"] = fingerprint_of(document)
            given = written(tmp_path / "a.dsa-solution.json", {**head, "placements": rows[::-1]})
            plan = plan_of(problem, document, placed)
            assert (
                read_dsa_solution(source, problem, given).offsets.tolist() == plan.offsets.tolist()
            )
            target = tmp_path / "b.dsa-solution.json"
            convert(Conversion(source, target, plan=given))
            assert json.loads(target.read_text())["placements"] == rows
            count += 1
            break
    assert count >= 30
    for wrong in (rows[1:], [*rows[1:], rows[1]], [*rows, rows[0]]):
        target.write_text(json.dumps(json.loads(given.read_text()) | {"placements": wrong}))
        with pytest.raises(InstanceError, match="placements: one for each of"):
            read_dsa_solution(source, problem, target)
    document["problem"]["buffers"][0]["size"] += 1
    with pytest.raises(InstanceError, match=r"problem_fingerprint: .*, that of a.json, is needed"):
        read_dsa_solution(written(source, document), problem, given)


def test_the_fingerprint_is_that_of_dsa_solver() -> None:
    assert fingerprint_of({**STRUCTURED, "metadata": {}}) == fingerprint_of(STRUCTURED)
    assert fingerprint_of({"metadata": {}, "problem": {}}) == "ec99ce75cb70ec8b"
    names = [
        {**STRUCTURED, "problem": {"pypto_structure": {"alias_classes": [{"members": members}]}}}
        for members in (["a", "b"], ["b", "c"], ["a"])
    ]
    hashes = ["3dd94daa310d9722"] * 2
    assert [fingerprint_of(each) for each in names[:2]] == hashes
    assert fingerprint_of(names[2]) not in hashes


def test_a_single_pool_is_a_capacity(tmp_path: Path) -> None:
    problem = read_problem(written(tmp_path / "a.dsa.json", STRUCTURED))
    assert (problem.name, problem.capacity, problem.memories) == ("example", 96, ())
    assert (problem.start.tolist(), problem.end.tolist()) == ([0, 2, 3], [2, 8, 5])
    assert problem.gaps.tolist() == [[1, 4, 6]]
    assert problem.reuse_prices.tolist() == [[0, 1, 3]]
    assert (problem.alignment.tolist(), problem.tensor_name) == ([8] * 3, ("b7", "b9", "b8"))


def test_a_pool_without_an_end_takes_all_buffers(tmp_path: Path) -> None:
    fields = copy.deepcopy(STRUCTURED)
    other = {"id": 5, "name": "dram", "capacity": None, "reserved_ranges": [{"begin": 0, "end": 9}]}
    fields["problem"]["pools"].append(other)
    problem = read_problem(written(tmp_path / "a.json", fields))
    ends = [(memory.begin, memory.capacity) for memory in problem.memories]
    # The stride of the memories is a multiple of 8.
    assert ends == [(0, 96), (152, 64 + 32 + 16 + 3 * 8 + 9)]


def test_a_pin_above_its_memory_is_refused(tmp_path: Path) -> None:
    fields = copy.deepcopy(STRUCTURED)
    fields["problem"]["pools"][0]["reserved_ranges"] = [{"begin": 88, "end": 96}]
    fields["problem"]["constraints"]["pinned_allocations"] = [{**PIN, "offset": 40}]
    with pytest.raises(
        InstanceError, match="offset: a pin whose bytes end at 96 or below is needed"
    ):
        read_problem(written(tmp_path / "a.json", fields))


@pytest.mark.parametrize("first", ["schema_version", "instance", "profile"])
def test_fields_may_stand_in_any_order(first: str, tmp_path: Path) -> None:
    fields = {first: STRUCTURED[first], **STRUCTURED}
    assert read_problem(written(tmp_path / "a.json", fields)).name == "example"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("buffers",), [], "buffers: at least one, each with an id of its own is needed, found"),
        (("buffers", 1, "id"), 7, "buffers: at least one, each with an id of its own is needed"),
        (("buffers", 0, "allowed_pools"), [4, 4], "allowed_pools: at least one pool, each once is "
         "needed, found [4, 4]"),
        (("buffers", 0, "allowed_pools"), [5], "allowed_pools: an id that the file has is needed"),
        (("buffers", 0, "size"), -1, "size: a whole number from 0 to 2**63 - 1 is needed"),
        (("buffers", 0, "live_intervals"), [], "live_intervals: at least one interval"),
        (("constraints", "colocations"), [{}], "first: a whole number from 0 to 2**63 - 1 is"),
        (("constraints", "separations"), [{"first": 7, "second": 1}], "second: an id that the file "
         "has is needed, found 1"),
        (("constraints", "pinned_allocations"), [PIN, PIN], "pinned_allocations: one allowed pool "
         "of each buffer is needed"),
        (("pools", 0, "reserved_ranges"), [{"begin": 3, "end": 3}], "memories, 'vec', reserved: "
         "[begin, end) within 96 bytes is needed"),
        (("pools", 0, "reserved_ranges"), [{"begin": 3, "end": 97}], "memories, 'vec', reserved: "
         "[begin, end) within 96 bytes is needed"),
        (("constraints", "pinned_allocations"), [{**PIN, "pool": 5}], "pool: an id that the file "
         "has is needed, found 5"),
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
    with pytest.raises(InstanceError) as refused:
        read_problem(written(tmp_path / "a.json", fields))
    assert f": field {message}" in str(refused.value)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem([], [], []), "at least one tensor"),
        (Problem([4, 0], [0, 0], [1, 1]), "none without bytes"),
        (Problem([4, 4], unsafe_pairs=[(0, 1)]), "found pairs"),
        (Problem([8], graph=Graph(op=["x", "y"], stream=[0, 1], producer=[0], consumers=[[1]],
                                  control=[])), "found graph"),
        (Problem([4, 4], [0, 0], [1, 1], contiguous=[(0, 1)]), "found 1 chains"),
        (Problem([4], [0], [1], memories=[Memory("a", 0, 8, 2)]), "found a: 2"),
        (Problem([4], [0], [1], memories=[Memory("a", 0, 8)], places=[(0, 0, 3)]), "0 at 3"),
        (Problem([4], [0], [1], memories=[Memory("a", 0, 8)], pinned={0: 9}), "0 at 9"),
    ],
)  # fmt: skip
def test_what_the_schema_cannot_hold_is_refused(
    problem: Problem, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InstanceError, match=message):
        write_dsa_problem(problem, tmp_path / "a.dsa.json")


def test_a_solution_needs_the_document(tmp_path: Path) -> None:
    problem = Problem([4], [0], [1])
    write_problem(problem, tmp_path / "a.json")
    with pytest.raises(InstanceError, match="the plan of a structured problem, found gapless"):
        write_dsa_solution(
            tmp_path / "a.json", problem, feasible(Plan.of(problem, [0])), tmp_path / "b.json"
        )
