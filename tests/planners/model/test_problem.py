"""The rules of the model: what a problem takes in, and how it refuses the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import FrozenInstanceError
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Graph, InstanceError, Memory, Problem, Safety
from planners.model.blocks import Blocks
from planners.model.rules import MAX_ALIGNMENT, MAX_TOTAL_BYTES
from planners.testing.random_problems import random_problem
from tests import definitions

INT64_MAX = (1 << 63) - 1


def chain_graph(nodes: int = 3) -> Graph:
    """Return a graph of one stream in which every node reads the tensor of the one before."""
    return Graph(
        op=["op"] * nodes,
        stream=[0] * nodes,
        producer=list(range(nodes)),
        consumers=[[node + 1] for node in range(nodes - 1)] + [[]],
    )


def message_of(*columns: Any, **fields: Any) -> str:
    """Return the one line with which a problem is refused."""
    with pytest.raises(InstanceError) as caught:
        Problem(*columns, **fields)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_three_kinds_of_safety() -> None:
    in_time = Problem([1, 2], [0, 1], [2, 3])
    assert in_time.safety is Safety.LIFETIMES
    assert (in_time.start.tolist(), in_time.end.tolist()) == ([0, 1], [2, 3])
    by_graph = Problem([1, 2, 3], graph=chain_graph())
    assert by_graph.safety is Safety.GRAPH
    assert (by_graph.start.tolist(), by_graph.end.tolist()) == ([0, 1, 2], [2, 3, 3])
    by_pairs = Problem([1, 2], unsafe_pairs=[(1, 0)])
    assert by_pairs.safety is Safety.PAIRS
    assert (by_pairs.start.tolist(), by_pairs.end.tolist()) == ([0, 0], [0, 0])
    assert [p.stream_count for p in (in_time, by_graph, by_pairs)] == [1, 1, 1]
    assert [p.naive_bytes for p in (in_time, by_graph, by_pairs)] == [3, 6, 3]


@pytest.mark.parametrize(
    "taken",
    [
        list,
        tuple,
        iter,
        np.array,
        lambda values: np.array(values, dtype=np.int8),
        lambda values: np.array(values, dtype=np.uint64),
        lambda values: np.array(values, dtype=object),
        lambda values: np.array([values, values]).T[:, 0],
        lambda values: [np.int32(value) for value in values],
    ],
)
def test_every_sequence_of_whole_numbers_is_taken(taken: Any) -> None:
    problem = Problem(taken([3, 4]), taken([0, 1]), taken([2, 3]), alignment=taken([1, 2]))
    for column, values in (("size", [3, 4]), ("start", [0, 1]), ("end", [2, 3])):
        found = getattr(problem, column)
        assert found.dtype == np.int64
        assert found.flags.c_contiguous
        assert found.tolist() == values


def test_tables_are_taken_as_arrays_too() -> None:
    problem = Problem(
        [1, 1], [0, 0], [9, 9], gaps=np.array([[0, 1, 2]], dtype=np.uint16),
        contiguous=[np.array([1, 0])], dynamic=np.array([True, False]),
    )  # fmt: skip
    assert problem.gaps.tolist() == [[0, 1, 2]]
    assert problem.contiguous == ((1, 0),)
    assert problem.dynamic is not None
    assert problem.dynamic.tolist() == [True, False]
    no_rows: list[Any] = [np.empty((0, 3)), np.empty((0, 3), dtype=np.int64), []]
    for empty in no_rows:
        assert Problem([1], [0], [1], gaps=empty).gaps.shape == (0, 3)


def test_nothing_of_a_problem_can_be_changed() -> None:
    origin = {"model": "m"}
    problem = Problem([1, 2], [0, 1], [4, 5], origin=origin)
    origin["model"] = "other"
    assert problem.origin["model"] == "m"
    graph, column = chain_graph(), np.array([1, 2])
    for owner, name in ((problem, "size"), (graph, "stream"), (problem.blocks, "size")):
        with pytest.raises(FrozenInstanceError):
            setattr(owner, name, column)
    with pytest.raises(TypeError):
        problem.origin["model"] = "x"  # type: ignore[index]


def test_columns_that_a_problem_returns_can_be_changed_without_changing_it() -> None:
    problem = Problem([1, 2], [0, 1], [4, 5], gaps=[(0, 1, 2)])
    problem.segments()[...] = 0
    assert problem.segments().tolist() == [[0, 0, 1], [0, 2, 4], [1, 1, 5]]
    graph = chain_graph()
    for column in graph.lifetimes():
        column[...] = 0
    assert [column.tolist() for column in graph.lifetimes()] == [[0, 1, 2], [2, 3, 3]]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "True"),
        (1.0, "1.0"),
        (np.float32(1), "np.float32(1.0)"),
        (np.bool_(True), "np.True_"),
        (float("nan"), "nan"),
        ("1", "'1'"),
        (None, "None"),
        ([1], "[1]"),
        (1 << 63, str(1 << 63)),
        (-(1 << 63) - 1, str(-(1 << 63) - 1)),
        pytest.param(10**6000, "a whole number of 19932 bits", id="of many digits"),
        (np.uint64(1 << 63), f"np.uint64({1 << 63})"),
    ],
)
@pytest.mark.parametrize("field", ["size", "start", "alignment", "phase_start", "layer_end"])
def test_refuses_entries_other_than_whole_numbers(field: str, value: object, shown: str) -> None:
    columns: dict[str, list[Any]] = {"size": [1, 1, 1], "start": [0, 0, 0], "end": [1, 1, 1]}
    columns[field] = [1, value, 1]
    assert message_of(**columns) == (
        f"field {field}, tensor 1: a whole number that fits int64 is needed, found {shown}"
    )


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.array([1.0, 2.0]), "field size, tensor 0: a whole number that fits int64 is needed, "
         "found 1.0"),
        (np.array([True, True]), "field size, tensor 0: a whole number that fits int64 is needed, "
         "found True"),
        (np.array([1, 1 << 63], dtype=np.uint64), "field size, tensor 1: a whole number that fits "
         f"int64 is needed, found {1 << 63}"),
        (np.array([[1, 2]]), "field size: one dimension is needed, found 2"),
        (np.array(1.5), "field size: one dimension is needed, found 0"),
        (7, "field size: a list is needed, found 7"),
        (None, "field size: a list is needed, found None"),
    ],
)  # fmt: skip
def test_refuses_columns_of_other_than_whole_numbers(column: Any, message: str) -> None:
    assert message_of(column, [0, 0], [1, 1]) == message


TWO: dict[str, Any] = {"size": [1, 1], "start": [0, 0], "end": [4, 4]}
FAST = Memory("fast", 0, 8)
PAIR: dict[str, Any] = {"size": [1, 1], "unsafe_pairs": [(0, 1)]}
CHAIN: dict[str, Any] = {"size": [1] * 3, "graph": chain_graph()}
BIG = 1 << 60
# What several fields need.
NUMBERED = "tensors are numbered 0 to 1, found"
ENTRY = "one entry a tensor is needed, found"
POWER = "a power of two up to 2**40 is needed, found"
PRINTABLE = "a string of printable characters is needed, found"
KEYS = "keys of printable characters are needed, found"
TOGETHER = "sizes, alignments and the largest pin together must stay below 2**61 bytes, found"
BYTES = "whole bytes from 0 to 2**63 - 1 are needed, found"
DECIDES = "safety; give lifetimes, a graph or unsafe_pairs"
ONE = "the graph decides safety; give one of the two"
LEFT_OUT = "decides safety; leave them out"
OF_LIFETIMES = "gaps are parts of lifetimes, and field"
IN_CHAIN = "a tensor is in at most one chain and once, found tensor"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (TWO | {"size": [1, -2]}, "size, tensor 1: bytes are at least 0, found -2"),
        (TWO | {"end": [4]}, f"end: {ENTRY} 1 for 2 tensors of field size"),
        (TWO | {"phase_end": [1, 2, 3]}, f"phase_end: {ENTRY} 3 for 2 tensors of field size"),
        (TWO | {"dynamic": [True]}, f"dynamic: {ENTRY} 1 for 2 tensors of field size"),
        (TWO | {"tensor_name": ["a"]}, f"tensor_name: {ENTRY} 1 for 2 tensors of field size"),
        (CHAIN | {"size": [1]}, f"graph.producer: {ENTRY} 3 for 1 tensors of field size"),
        (TWO | {"start": [0, 4]}, "end, tensor 1: a lifetime [start, end) needs start < end, found "
         "[4, 4)"),
        (TWO | {"end": [4, 1 << 62]}, "start, tensor 1: steps must stay within 2**62, found "
         f"[0, {1 << 62})"),
        (TWO | {"start": [-INT64_MAX, 0]}, "start, tensor 0: steps must stay within 2**62, found "
         f"[{-INT64_MAX}, 4)"),
        ({"size": [1]}, f"fields start and end: something must decide {DECIDES}"),
        ({"size": [1], "start": [0]}, f"fields start and end: something must decide {DECIDES}"),
        (PAIR | {"start": [0, 0]}, f"fields start and end: field unsafe_pairs {LEFT_OUT}"),
        (CHAIN | {"end": [1] * 3}, f"fields start and end: field graph {LEFT_OUT}"),
        (CHAIN | {"unsafe_pairs": []}, f"unsafe_pairs: {ONE}"),
        (TWO | {"alignment": [1, 0]}, f"alignment, tensor 1: {POWER} 0"),
        (TWO | {"alignment": [3, 1]}, f"alignment, tensor 0: {POWER} 3"),
        (TWO | {"alignment": [1, 2 << 40]}, f"alignment, tensor 1: {POWER} {2 * MAX_ALIGNMENT}"),
        (TWO | {"alignment": [1, -(1 << 63)]}, f"alignment, tensor 1: {POWER} {-(1 << 63)}"),
        (TWO | {"size": [BIG, BIG + 4096]}, f"size: {TOGETHER} 2.306e+18; the largest is tensor 1 "
         f"with {BIG + 4096}"),
        (TWO | {"size": [INT64_MAX] * 2}, f"size: {TOGETHER} 1.845e+19; the largest is tensor 0 "
         f"with {INT64_MAX}"),
        (TWO | {"pinned": {1: INT64_MAX}}, f"size: {TOGETHER} 9.223e+18; the largest is tensor 0 "
         "with 1"),
        (PAIR | {"unsafe_pairs": [(0, 1), (1, 2)]}, f"unsafe_pairs, entry 1: {NUMBERED} 2"),
        (PAIR | {"unsafe_pairs": [(-1, 0)]}, f"unsafe_pairs, entry 0: {NUMBERED} -1"),
        (PAIR | {"unsafe_pairs": [(1, 1)]}, "unsafe_pairs, entry 0: two different tensors are "
         "needed, found 1 twice"),
        (PAIR | {"unsafe_pairs": [(0, 1), (0,)]}, "unsafe_pairs, entry 1: 2 whole numbers are "
         "needed, found 1"),
        (PAIR | {"unsafe_pairs": np.zeros(1)}, "unsafe_pairs: rows of 2 whole numbers are needed"),
        (TWO | {"contiguous": [[0]]}, "contiguous, chain 0: at least two tensors, found 1"),
        (TWO | {"contiguous": [[0, 2]]}, f"contiguous, chain 0: {NUMBERED} 2"),
        (TWO | {"contiguous": [[-1, 0]]}, f"contiguous, chain 0: {NUMBERED} -1"),
        (TWO | {"contiguous": [[0, 0]]}, f"contiguous, chain 0: {IN_CHAIN} 0 in chain 0 already"),
        (CHAIN | {"contiguous": [[0, 1], [2, 1]]}, f"contiguous, chain 1: {IN_CHAIN} 1 in chain 0 "
         "already"),
        (TWO | {"contiguous": [0, 1]}, "contiguous, chain 0: a list is needed, found 0"),
        (TWO | {"pinned": {0: -1}}, "pinned, tensor 0: an offset is at least 0, found -1"),
        (TWO | {"pinned": {2: 0}}, f"pinned, entry 0: {NUMBERED} 2"),
        (PAIR | {"gaps": [(0, 1, 2)]}, f"gaps: {OF_LIFETIMES} unsafe_pairs decides safety here; "
         "leave them out"),
        (CHAIN | {"gaps": [(0, 0, 1)]}, f"gaps: {OF_LIFETIMES} graph decides safety here; leave "
         "them out"),
        (TWO | {"reuse_prices": [(0, 2, 1)]}, f"reuse_prices, entry 0: {NUMBERED} 2"),
        (TWO | {"reuse_prices": [(1, 1, 1)]}, "reuse_prices, entry 0: two different tensors are "
         "needed, found 1 twice"),
        (TWO | {"reuse_prices": [(0, 1, 0)]}, "reuse_prices, entry 0: a price is at least 1, found "
         "0"),
        (TWO | {"reuse_prices": [(0, 1, 2), (1, 0, 3)]}, "reuse_prices, entry 1: a pair has one "
         "price, found tensors 1 and 0 again"),
        (TWO | {"reuse_prices": [(0, 1, 1 << 60)]}, "reuse_prices: all prices together must stay "
         "below 2**53, found 1.153e+18"),
        (TWO | {"together": [[0]]}, "together, group 0: at least two tensors, found 1"),
        (TWO | {"together": [[0, 1]], "contiguous": [[0, 1]]}, "together, group 0: no tensor of it "
         "is in a chain, found tensor 0"),
        (TWO | {"together": [[0, 1]], "pinned": {0: 0, 1: 8}}, "pinned: the tensors of group 0 "
         "begin at one offset, a multiple of 1, found pins at [0, 8]"),
        (TWO | {"together": [[0, 1]], "apart": [(1, 0)]}, "apart, entry 0: tensors of a group lie "
         "together, found 1 and 0"),
        (TWO | {"apart": [(0, 1)], "exclusive": [(1, 0)]}, "apart, entry 0: found 0 and 1, which "
         "are exclusive as well"),
        (TWO | {"exclusive": [(0, 2)]}, f"exclusive, entry 0: {NUMBERED} 2"),
        (TWO | {"memories": [FAST], "capacity": 4}, "capacity: each memory has its own; leave it "
         "out"),
        (TWO | {"memories": [FAST, FAST]}, "memories: every name comes once"),
        (TWO | {"memories": [FAST, Memory("slow", 7, 1)]}, "memories, 'slow', begin: memories are "
         "apart and ascending, found 7; 'fast' ends at 8"),
        (TWO | {"memories": [Memory("odd", 3, 8)], "alignment": [1, 2]}, "memories, 'odd', begin: "
         "a multiple of 2, the largest alignment, is needed, found 3"),
        (TWO | {"memories": [FAST], "places": [(0, 1, 0)]}, "places, entry 0: memories are "
         "numbered from 0, and there are 1, found 1"),
        (TWO | {"memories": [FAST], "places": [(2, 0, 0)]}, f"places, entry 0: {NUMBERED} 2"),
        (TWO | {"memories": [FAST], "places": [(0, 0, -1)]}, "places, entry 0: a cost is at least "
         "0, found -1"),
        (TWO | {"memories": [FAST], "places": [(0, 0, 1), (0, 0, 2)]}, "places, entry 1: a tensor "
         "has one cost in a memory, found tensor 0 and memory 0 again"),
        (TWO | {"gaps": [(0, 1, 2), (2, 1, 2)]}, f"gaps, entry 1: {NUMBERED} 2"),
        *((TWO | {"gaps": [(1, *gap)]}, f"gaps, tensor 1: a gap lies within the lifetime [0, 4), "
           f"found [{gap[0]}, {gap[1]})") for gap in ((2, 2), (-1, 2), (2, 5))),
        (TWO | {"gaps": [(1, 2, 4), (1, 1, 3)]}, "gaps, tensor 1: the gaps of a tensor may not "
         "overlap"),
        (TWO | {"gaps": [(1, 0, 2), (1, 2, 4)]}, "gaps, tensor 1: some step of the lifetime must "
         "be left, found gaps over all of [0, 4)"),
        (TWO | {"capacity": -1}, f"capacity: {BYTES} -1"),
        (TWO | {"capacity": 1 << 63}, f"capacity: {BYTES} {1 << 63}"),
        (TWO | {"dynamic": [True, 1]}, "dynamic, tensor 1: true or false is needed, found 1"),
        (TWO | {"tensor_name": ["", "\n"]}, f"tensor_name, tensor 1: {PRINTABLE} '\\n'"),
        (TWO | {"tensor_name": ["\ud800", ""]}, f"tensor_name, tensor 0: {PRINTABLE} '\\ud800'"),
        (TWO | {"name": "a\x1b[2J"}, f"name: {PRINTABLE} 'a\\x1b[2J'"),
        (TWO | {"origin": {1: 1}}, f"origin: {KEYS} 1"),
        (TWO | {"origin": {"\n": 1}}, f"origin: {KEYS} '\\n'"),
    ],
)  # fmt: skip
def test_every_rule_is_one_line_that_names_field_and_tensor(
    fields: dict[str, Any], message: str
) -> None:
    assert message_of(**fields).removeprefix("field ") == message


@pytest.mark.parametrize(
    "value", [None, [1], {}, float("nan"), float("inf"), 1 << 63, "\udc80", b"bytes", 1j]
)
def test_the_origin_holds_scalars_alone(value: Any) -> None:
    message = message_of([1], [0], [1], origin={"good": 1, "seed": value})
    assert message.startswith("field origin, key 'seed': a string of Unicode characters, a whole ")


def test_a_long_value_is_cut_in_a_message() -> None:
    for value in ("x" * 10_000, [[[[[[1]]]]]] * 1000, {"a": "b" * 1000}, range(10**9)):
        message = message_of([value], [0], [1])
        assert len(message) < 250


def test_limits_that_still_hold() -> None:
    limit = MAX_TOTAL_BYTES
    Problem([limit // 2, limit // 4], [0, 0], [1, 1])
    Problem([0], [-(1 << 62)], [(1 << 62) - 1], alignment=[MAX_ALIGNMENT])
    Problem([0], [0], [1], pinned={0: limit - 1024}, capacity=INT64_MAX)
    lifetime = Problem([0], [-(1 << 62)], [(1 << 62) - 1], gaps=[(0, 0, 1)])
    assert lifetime.segments().tolist() == [[0, -(1 << 62), 0], [0, 1, (1 << 62) - 1]]


def test_more_tensors_than_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planners.model.rules.MAX_TENSORS", 2)
    Problem([1, 1], [0, 0], [1, 1])
    assert message_of([1] * 3, [0] * 3, [1] * 3) == "field size: at most 2 tensors, found 3"


def test_messages_call_a_tensor_by_its_name() -> None:
    assert Problem([1], [0], [1]).describe(0) == "tensor 0"
    assert Problem([1], [0], [1], tensor_name=["w"]).describe(0) == "tensor 0 (w)"


def steps(rows: Iterable[list[int]], tensor: int) -> list[int]:
    return [step for t, first, last in rows if t == tensor for step in range(first, last)]


@given(st.randoms(use_true_random=False))
def test_segments_are_the_steps_without_the_gaps(rng: Random) -> None:
    problem = random_problem(rng, Safety.LIFETIMES, features=frozenset({"gaps"}))
    rows = problem.segments().tolist()
    assert rows == sorted(rows)
    assert all(first < last for _, first, last in rows)
    for tensor in range(problem.tensor_count):
        assert steps(rows, tensor) == sorted(definitions.steps_needed(problem, tensor))


def test_an_empty_problem() -> None:
    for problem in (
        Problem([], [], []),
        Problem([], unsafe_pairs=[]),
        Problem([], graph=Graph(op=[], stream=[], producer=[], consumers=[])),
    ):
        assert problem.tensor_count == problem.naive_bytes == problem.blocks.count == 0
        assert problem.segments().shape == (0, 3)
        assert problem.core.unsafe_degrees().tolist() == []


def columns_of(owner: object) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every array that a problem holds, and those of what it holds."""
    for name, value in vars(owner).items():
        if isinstance(value, np.ndarray):
            yield name, value
        elif isinstance(value, (Graph, Blocks)):
            yield from columns_of(value)


def test_no_column_can_be_made_writable() -> None:
    lifetimes = Problem(
        np.array([4, 2, 8]), np.array([0, 0, 5]), [9, 5, 9], alignment=[1, 2, 4],
        contiguous=[(0, 1)], pinned={2: 8}, gaps=[(0, 2, 4)], phase_start=[0, 0, 1],
        phase_end=[1, 1, 1], dynamic=[True, False, False], layer_start=[0, 0, 0],
        layer_end=[1, 1, 1],
    )  # fmt: skip
    graph = chain_graph()
    assert len(graph.consumer_tensors) == 2  # kept from here on
    found = 0
    for problem in (lifetimes, Problem([1, 2, 3], graph=graph),
                    Problem([1, 2], unsafe_pairs=[(0, 1)]), Problem([], [], [])):  # fmt: skip
        for _, column in columns_of(problem):
            for view in (column, column[:], column.T, column.view()):
                assert not view.flags.writeable
                with pytest.raises(ValueError, match="WRITEABLE"):
                    view.setflags(write=True)
            found += 1
    assert found > 50


def test_the_array_behind_a_column_stays_the_callers() -> None:
    size = np.array([3, 4])
    problem = Problem(size, [0, 0], [1, 1])
    size[0] = 99
    assert problem.size.tolist() == [3, 4]
    again = Problem(problem.size, problem.start, problem.end)
    assert again.size is problem.size  # which cannot change, so one copy is enough


def test_a_long_name_is_cut_in_a_message() -> None:
    problem = Problem([1], [0], [1], tensor_name=["n" * 10**6])
    assert problem.describe(0) == f"tensor 0 ({'n' * 97}...)"
