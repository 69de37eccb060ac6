"""The JSON Schemas say what the readers say, but for what no schema can say; that is listed."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from planners import InstanceError, InvalidPlanError, Problem, Safety
from planners.files.plan_file import read_saved_plan
from planners.files.problem_file import problem_from_fields, problem_to_fields
from planners.testing.random_problems import random_problem
from tests.fuzz.mutations import changed_value
from tests.fuzz.valid_files import DYNAMIC, GRAPH, LIFETIMES, PAIRS, PLANNED, valid_files
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
# Which are checked by default, in seconds together.
SMALL_BYTES = 20_000
INSTANCES = [
    path if path.stat().st_size <= SMALL_BYTES else pytest.param(path, marks=pytest.mark.slow)
    for path in sorted((ROOT / "instances").glob("*.json*"))
]

# What the page lists as beyond the schema of instances, and how the reader refuses it.
BEYOND_INSTANCES = {
    "one entry a tensor": r"one (entry|list) a (tensor|node) is needed",
    "exist": r"(tensors|nodes) are numbered 0 to -?\d+, found|an index into the \d+ op_names",
    "start < end": r"a lifetime \[start, end\) needs start < end",
    "2**61": r"together must stay below 2\*\*61 bytes",
    "in at most one chain": r"a tensor is in at most one chain and once",
    "agree with the chain": r"its chain aligns|of its chain come first|its chain is pinned"
    r"|must be aligned, with its whole chain",
    "pinned twice": r"field pinned, tensor \d+: given twice",
    "gaps": r"a gap lies within|gaps of a tensor may not overlap|step of the lifetime must be left",
    "topological order": r"listed in global topological order|must not form a cycle",
    "point or exponent": r"found -?\d+\.0$|found -?\d(\.\d+)?e\+\d+$",
    "printable": r"printable characters|a string of Unicode characters.*found '",
    "int64 in `origin`": r"fits int64, a finite number.*found (-?\d{19}|nan|a wh)",
}  # fmt: skip
BEYOND_PLANS = (
    r"^referee: ",
    r"field digest: the plan is for another problem",
    r"field \w+: the value of the instance is needed",
    r"field lower_bound: at most the peak",
    r"field reusable_space, field \w+, row \d+: ",
    r"field reusable_space, field (times|space): one entry a group",
    r"field reusable_space, field offsets: from 0 to the number of intervals",
    r"field reusable_space\.(pool: the peak of the static|intervals, group|space: lists in)",
)


def schema_of(name: str) -> Draft202012Validator:
    text = (files("planners.files") / f"{name}.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


INSTANCE, PLAN = schema_of("instance"), schema_of("plan")


def refusal_of_instance(fields: Any) -> str | None:
    """Return why the reader refuses an instance, or None."""
    try:
        problem_from_fields(fields)
    except InstanceError as error:
        return str(error)
    return None


def refusal_of_plan(problem: Problem, fields: Any) -> str | None:
    """Return why the reader or the referee refuses a plan, or None."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(fields, file)
        file.flush()
        try:
            read_saved_plan(problem, file.name)
        except InvalidPlanError as error:
            return f"referee: {error}"
        except InstanceError as error:
            return str(error).removeprefix(f"{file.name}: ")
    return None


def as_json(fields: Any) -> Any:
    return json.loads(json.dumps(fields, default=list))


@pytest.mark.parametrize("schema", [INSTANCE, PLAN], ids=["instance", "plan"])
def test_the_schemas_are_schemas(schema: Draft202012Validator) -> None:
    Draft202012Validator.check_schema(schema.schema)


@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.name)
def test_every_committed_instance_is_valid(path: Path) -> None:
    data = path.read_bytes()
    INSTANCE.validate(json.loads(gzip.decompress(data) if path.suffix == ".gz" else data))


def test_written_instances_and_plans_are_valid(tmp_path: Path) -> None:
    plans = [data for name, data in valid_files(tmp_path).items() if name.endswith(".plan")]
    assert len(plans) == 2
    for data in plans:
        PLAN.validate(json.loads(data))
    for problem in (LIFETIMES, GRAPH, PAIRS):
        INSTANCE.validate(problem_to_fields(problem))


@given(rng=st.randoms(use_true_random=False), safety=st.sampled_from(Safety))
def test_random_problems_are_valid(rng: Random, safety: Safety) -> None:
    INSTANCE.validate(problem_to_fields(random_problem(rng, safety)))


# ---- Where reader and schema agree ---------------------------------------------------------

TOY = {"format": "gapless-problem", "version": 1, "size": [1, 2], "start": [0, 0], "end": [2, 2]}
OF_PAIRS = {"format": "gapless-problem", "version": 1, "size": [1, 2], "unsafe_pairs": [[0, 1]]}
OF_GRAPH = problem_to_fields(GRAPH)
MOST = 2**63 - 1


def graph_with(**changes: Any) -> dict[str, Any]:
    graph = {**OF_GRAPH["graph"], **changes}
    return {**OF_GRAPH, "graph": {key: value for key, value in graph.items() if value is not ...}}


REFUSED: list[Any] = [
    None, [], "x", {}, {**TOY, "colour": 1}, {**TOY, "unsafe_pairs": [[0, 1]]},
    {**OF_GRAPH, "unsafe_pairs": []}, {**OF_GRAPH, "start": [0] * 4, "end": [1] * 4},
    {**OF_GRAPH, "start": [0] * 4}, {**OF_GRAPH, "gaps": [[0, 0, 1]]}, {**OF_PAIRS, "end": [1, 1]},
    {**OF_PAIRS, "gaps": [[0, 0, 1]]}, {**OF_PAIRS, "unsafe_pairs": [[0, 0]]},
    {**OF_PAIRS, "unsafe_pairs": [[0]]}, {**OF_PAIRS, "unsafe_pairs": [[-1, 0]]},
    {**OF_PAIRS, "unsafe_pairs": [[0, 1, 2]]}, {**OF_GRAPH, "graph": []},
    {**OF_PAIRS, "unsafe_pairs": [[0, 20_000_000]]}, {**OF_PAIRS, "unsafe_pairs": {}},
    {**OF_PAIRS, "unsafe_pairs": [0]}, {**OF_PAIRS, "unsafe_pairs": None},
    *({key: value for key, value in TOY.items() if key != field} for field in TOY),
    *({**TOY, **change} for change in (
        {"format": "gapless-plan"}, {"version": 2}, {"version": True}, {"version": "1"},
        {"name": 5}, {"name": "a\n"}, {"name": "\x9b1m"}, {"name": None},
        {"origin": []}, {"origin": {"a": None}}, {"origin": {"a": [1]}}, {"origin": {"a\n": 1}},
        {"origin": {"a": float("inf")}}, {"origin": {"a": -float("inf")}},
        {"capacity": None}, {"capacity": -1}, {"capacity": 2**63}, {"capacity": True},
        {"size": 2}, {"size": [1, -1]}, {"size": [1, 2**63]}, {"size": [1, None]},
        {"size": [1, True]}, {"size": [1, 0.5]}, {"size": [1, "2"]},
        {"start": None}, {"start": [0, -(2**62) - 1]}, {"start": ["0", 0]},
        {"end": [2, 2**62]}, {"end": {}}, {"end": [2, False]},
        {"alignment": [1, 3]}, {"alignment": [0, 1]}, {"alignment": [1, 2**41]},
        {"alignment": [-1, 1]}, {"alignment": [1, True]}, {"alignment": "1"},
        {"contiguous": [[0]]}, {"contiguous": [[]]}, {"contiguous": [[0, 0]]}, {"contiguous": [0]},
        {"contiguous": [[0, -1]]}, {"contiguous": [[0, "1"]]}, {"contiguous": {}},
        {"pinned": [[0]]}, {"pinned": [[0, 0, 0]]}, {"pinned": [[0, -1]]}, {"pinned": [[-1, 0]]},
        {"pinned": {"0": 0}}, {"pinned": [[0, 2**63]]}, {"pinned": [0]},
        {"reuse_prices": [[0, 1]]}, {"reuse_prices": [[0, 1, 0]]}, {"reuse_prices": [[0, "1", 2]]},
        {"together": [[0]]}, {"apart": [[0, 0]]}, {"exclusive": [[0, "1"]]}, {"memories": [{}]},
        {"memories": [{"name": "m", "begin": 0, "capacity": 4, "alignment": 3}]},
        {"memories": [{"name": "m", "begin": -1, "capacity": 4}]}, {"places": [[0, 0, -1]]},
        {"gaps": [[0, 1]]}, {"gaps": [[0, 0, 1, 1]]}, {"gaps": [[-1, 0, 1]]}, {"gaps": [5]},
        {"gaps": [[0, 0, "1"]]}, {"gaps": [[0, -(2**62) - 1, 1]]}, {"gaps": None},
        {"phase_start": [0]* 2 + [0.5]}, {"phase_end": [2**63, 0]}, {"layer_start": [-MOST - 2, 0]},
        {"layer_end": [0, None]}, {"phase_start": 0},
        {"dynamic": [0, 1]}, {"dynamic": [True, None]}, {"dynamic": True},
        {"tensor_name": ["a", 5]}, {"tensor_name": ["a", "\t"]}, {"tensor_name": "ab"},
        {"graph": OF_GRAPH["graph"]}, {"graph": None}, {"unsafe_pairs": []},
    )),
    *(graph_with(**change) for change in (
        *({field: ...} for field in OF_GRAPH["graph"]), {"colour": 1},
        {"op_names": ["a", "b", "c", "d\n"]}, {"op_names": ["a", "b", "c", 5]}, {"op_names": {}},
        {"op": [0, 0, 0, 0, -1]}, {"op": [0, 0, 0, 0, True]}, {"op": 0},
        {"stream": [0, 0, 0, 0, -1]}, {"stream": [0, 0, 0, 0, 2**20]}, {"stream": None},
        {"stream": [0, 0, 0, 0, "1"]},
        {"producer": [0, 1, 2, -1]}, {"producer": [0, 1, 2, 20_000_000]}, {"producer": ["0"] * 4},
        {"producer": {}}, {"consumers": [[], [], [], 4]}, {"consumers": [[], [], [], [-1]]},
        {"consumers": [[], [], [], [20_000_000]]}, {"consumers": None},
        {"control": [[1]]}, {"control": [[1, 1]]}, {"control": [[-1, 1]]}, {"control": [1]},
        {"control": [[0, 20_000_000]]}, {"control": [[0, 1, 2]]}, {"control": {}},
    )),
]  # fmt: skip
ACCEPTED: list[Any] = [
    {**TOY, "start": [-(2**62), 0]}, {**TOY, "end": [2, 2**62 - 1]},
    {**TOY, "alignment": [1, 2**40]}, {**TOY, "alignment": [2**shift for shift in (0, 39)]},
    {**TOY, "capacity": 0}, {**TOY, "capacity": MOST}, {**TOY, "size": [2**61 - 100, 0]},
    {**TOY, "phase_start": [-MOST - 1, MOST]}, {**TOY, "layer_end": [-MOST - 1, MOST]},
    {**TOY, "gaps": []}, {**OF_PAIRS, "gaps": []}, {**OF_GRAPH, "gaps": []},
    {**TOY, "gaps": [[0, 0, 1], [1, 1, 2]]}, {**TOY, "pinned": [[1, 2**60]]},
    {**TOY, "name": "größe 中 "}, {**TOY, "name": "", "tensor_name": ["", " "]},
    {**TOY, "origin": {"a": "b\n\x1b", "": True, "c": 1.7976931348623157e308, "d": MOST}},
    {**OF_PAIRS, "unsafe_pairs": [[0, 1], [1, 0], [0, 1]]}, {**OF_PAIRS, "unsafe_pairs": []},
    graph_with(stream=[0, 0, 2**20 - 1, 1, 0]), graph_with(consumers=[[0, 1, 1], [], [], []]),
    graph_with(control=[[0, 4], [0, 4]]), graph_with(op_names=["a", "a", "b", "c", "unused"]),
    {**TOY, "size": [], "start": [], "end": [], "origin": {}, "contiguous": []},
]  # fmt: skip


@pytest.mark.parametrize("fields", REFUSED, ids=range(len(REFUSED)))
def test_reader_and_schema_refuse(fields: Any) -> None:
    assert refusal_of_instance(fields) is not None
    assert not INSTANCE.is_valid(fields)


@pytest.mark.parametrize("fields", ACCEPTED, ids=range(len(ACCEPTED)))
def test_reader_and_schema_accept(fields: Any) -> None:
    assert refusal_of_instance(fields) is None
    INSTANCE.validate(fields)


# ---- Where the reader alone refuses --------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("one entry a tensor", {**TOY, "alignment": [1]}),
        ("one entry a tensor", graph_with(stream=[0])),
        ("exist", {**OF_PAIRS, "unsafe_pairs": [[0, 2]]}),
        ("exist", graph_with(op=[0, 0, 0, 0, 9])),
        ("exist", graph_with(producer=[0, 1, 2, 5])),
        ("start < end", {**TOY, "start": [2, 0]}),
        ("2**61", {**TOY, "size": [2**61, 2**61]}),
        ("in at most one chain", {**TOY, "size": [1] * 3, "start": [0] * 3, "end": [1] * 3,
                                  "contiguous": [[0, 1], [1, 2]]}),
        ("agree with the chain", {**TOY, "contiguous": [[0, 1]], "alignment": [2, 2]}),
        ("agree with the chain", {**TOY, "contiguous": [[0, 1]], "pinned": [[1, 0]]}),
        ("agree with the chain", {**TOY, "alignment": [2, 1], "pinned": [[0, 1]]}),
        ("pinned twice", {**TOY, "pinned": [[0, 0], [0, 0]]}),
        ("gaps", {**TOY, "gaps": [[0, 0, 2]]}),
        ("gaps", {**TOY, "gaps": [[0, 1, 3]]}),
        ("topological order", graph_with(control=[[4, 3]])),
        ("point or exponent", json.loads(json.dumps(TOY).replace("[1, 2]", "[1.0, 2e0]"))),
        ("printable", {**TOY, "name": "\u200b"}),
        ("printable", {**TOY, "origin": {"a": "\ud800"}}),
        ("int64 in `origin`", {**TOY, "origin": {"a": 2**63}}),
        ("int64 in `origin`", {**TOY, "origin": {"a": float("nan")}}),
    ],
)  # fmt: skip
def test_the_reader_alone_refuses(rule: str, fields: Any) -> None:
    INSTANCE.validate(fields)
    assert re.search(BEYOND_INSTANCES[rule], str(refusal_of_instance(fields)))


def test_the_page_lists_what_is_beyond_the_schema() -> None:
    _, _, below = PAGE.partition("## As a JSON Schema\n")
    for rule in BEYOND_INSTANCES:
        assert rule in below


def test_the_page_describes_every_field() -> None:
    graph = INSTANCE.schema["$defs"]["graph"]
    rows = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("|"))
    described = set(re.findall(r"`(\w+)`", rows))
    assert {*INSTANCE.schema["properties"], *graph["properties"]} <= described
    assert {*PLAN.schema["properties"]} <= described


@given(
    rng=st.randoms(use_true_random=False),
    start=st.sampled_from([None, *(problem_to_fields(p) for p in (LIFETIMES, GRAPH, PAIRS))]),
    safety=st.sampled_from(Safety),
)
def test_mutated_instances(rng: Random, start: Any, safety: Safety) -> None:
    fields = start or problem_to_fields(random_problem(rng, safety))
    for _ in range(rng.choice((1, 1, 2, 4))):
        fields = as_json(changed_value(rng, fields))
    refusal = refusal_of_instance(fields)
    if not INSTANCE.is_valid(fields):
        assert refusal is not None
    elif refusal is not None:
        assert any(re.search(rule, refusal) for rule in BEYOND_INSTANCES.values()), refusal
    else:
        written = as_json(problem_to_fields(problem_from_fields(fields)))
        assert as_json(problem_to_fields(problem_from_fields(written))) == written


# ---- Plans ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    written = valid_files(tmp_path_factory.mktemp("plans"))
    return {name: json.loads(written[name]) for name in ("plan.plan", "space.plan")}


PROBLEMS = {"plan.plan": PLANNED, "space.plan": DYNAMIC}


@pytest.mark.parametrize(
    "change",
    [
        *({field: ...} for field in PLAN.schema["required"]),
        {"colour": 1}, {"format": "gapless-problem"}, {"version": 2}, {"version": 3},
        {"instance": 5}, {"digest": "sha256:"}, {"digest": 5}, {"planner": None},
        {"parameters": []}, {"parameters": {"a": None}}, {"parameters": {"a": []}},
        {"seed": -1}, {"seed": 2**63}, {"seed": True}, {"status": "invalid"}, {"status": 1},
        {"peak": -1}, {"peak": 2**63}, {"peak": "1"}, {"lower_bound": -1}, {"lower_bound": None},
        {"certificate": None}, {"offsets": {}}, {"offsets": [0, 0, 0, 2**63]},
        {"offsets": [0, 0, 0, "0"]}, {"offsets": [0, 0, 0, 0.5]},
    ],
    ids=str,
)  # fmt: skip
def test_plans_that_both_refuse(change: dict[str, Any], plans: dict[str, Any]) -> None:
    fields = {k: v for k, v in {**plans["plan.plan"], **change}.items() if v is not ...}
    assert refusal_of_plan(PLANNED, fields) is not None
    assert not PLAN.is_valid(fields)


@pytest.mark.parametrize(
    "change",
    [
        *({field: ...} for field in PLAN.schema["$defs"]["reusable_space"]["required"]),
        {"colour": 1}, {"pool": -1}, {"pool": 2**63}, {"pool": None}, {"visits": [[0, 0, 0]]},
        {"visits": [[0, 0, 0, "0"]]}, {"visits": [[0, 0, 0, 2**63]]},
        {"visits": [[0, 0, 0, -(2**63) - 1]]}, {"visits": [[0] * 5]},
        {"visits": 5}, {"visits": [5]}, {"times": [5]}, {"times": [[0]]}, {"intervals": [5]},
        {"intervals": [[0, 1, 2]]},
        {"times": [[0, 1, 2]]}, {"times": [[0, "1"]]}, {"times": [[1, 1]]},
        {"times": [[0, 2**62 + 1]]}, {"times": [[-(2**62) - 1, 0]]}, {"times": {}},
        {"space": [-1]}, {"space": ["0"]}, {"space": 0}, {"offsets": []}, {"offsets": [-1]},
        {"offsets": [None]}, {"offsets": {}}, {"intervals": [[0]]}, {"intervals": [[-1, 5]]},
        {"intervals": [[5, 5]]}, {"intervals": [[0, 2**63]]}, {"intervals": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_space_that_both_refuse(change: dict[str, Any], plans: dict[str, Any]) -> None:
    whole = plans["space.plan"]
    space = {k: v for k, v in {**whole["reusable_space"], **change}.items() if v is not ...}
    fields = {**whole, "reusable_space": space}
    assert refusal_of_plan(DYNAMIC, fields) is not None
    assert not PLAN.is_valid(fields)


def test_the_version_says_whether_there_is_a_space(plans: dict[str, Any]) -> None:
    fields = {**plans["space.plan"], "version": 1}
    assert refusal_of_plan(DYNAMIC, fields) is not None
    assert not PLAN.is_valid(fields)


@given(rng=st.randoms(use_true_random=False), name=st.sampled_from(sorted(PROBLEMS)))
def test_mutated_plans(rng: Random, name: str, plans: dict[str, Any]) -> None:
    fields = plans[name]
    for _ in range(rng.choice((1, 1, 2))):
        fields = as_json(changed_value(rng, fields))
    refusal = refusal_of_plan(PROBLEMS[name], fields)
    if not PLAN.is_valid(fields):
        assert refusal is not None
    elif refusal is not None:
        beyond = (*BEYOND_PLANS, BEYOND_INSTANCES["point or exponent"])
        assert any(re.search(rule, refusal) for rule in beyond), refusal
