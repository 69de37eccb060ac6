"""What the cores export is checked once, at the border: no argument ends the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from planners import _core
from tests.planners.exact.test_search_core import ORDER, make, rules_of

pytestmark = pytest.mark.core

INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
NOBODY = np.zeros((0, 2), np.int32)


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


def rows(*values: tuple[int, int, int]) -> Any:
    return np.array(values, np.int64).reshape(-1, 3)


def graph(**changed: Any) -> _core.Graph:
    """Return two nodes of one stream, with a tensor between them."""
    return _core.Graph(**graph_columns(**changed))


def graph_columns(**changed: Any) -> dict[str, Any]:
    right = {
        "stream": i32(0, 0), "producer": i32(0), "consumer_offsets": i64(0, 1),
        "consumers": i32(1), "control": NOBODY,
    }  # fmt: skip
    return right | changed


def blocks(**changed: Any) -> _core.Blocks:
    """Return two tensors of 3 and 4 bytes, each in a block of its own."""
    right = {
        "offsets": i64(0, 1, 2), "members": i32(0, 1), "before": i64(0, 0), "size": i64(3, 4),
        "modulus": i64(1, 1), "residue": i64(0, 0), "pinned": i64(-1, -1),
    }  # fmt: skip
    return _core.Blocks(**(right | changed))


def instance(segments: Any = None, size: Any = None) -> _core.Instance:
    size = i64(3, 4) if size is None else size
    segments = rows((0, 0, 1), (1, 0, 1)) if segments is None else segments
    return _core.Instance.from_segments(size, blocks(), segments)


def related(tensors: int, *pairs: tuple[int, int]) -> _core.BitRows:
    return _core.rows_from_pairs(tensors, np.array(pairs, np.int64).reshape(-1, 2))


def place(order: Any) -> Any:
    return _core.place_single_object(
        instance(), order, _core.Fit.FIRST, _core.ChainRule.EXACT, _core.NO_LIMIT, 1.0
    )


def searched(**changed: Any) -> _core.SearchProblem:
    right = {
        "modulus": i64(1), "residue": i64(0), "pinned": i64(-1), "block": i32(0), "before": i64(0),
        "size": i64(1), "lifetime": np.ones(1), "rows": rows((0, 0, 1)), "sections": 1,
    }  # fmt: skip
    return _core.SearchProblem(**(right | changed))


HUGE = 1 << 61
BROKEN: dict[str, tuple[type[Exception], str, Callable[[], object]]] = {
    "more tensors than any table holds": (
        ValueError, "at most 134217728 entries", lambda: related(1 << 40),
    ),
    "a table that is too large": (
        ValueError, "would take 16 GiB, and at most 4 are taken", lambda: related(370_728),
    ),
    "pairs that are no pairs": (
        ValueError, "rows of 2 are needed, found rows of 0",
        lambda: _core.rows_from_pairs(3, np.zeros((1 << 40, 0), np.int64)),
    ),
    "a pair of one": (ValueError, "two different tensors", lambda: related(2, (1, 1))),
    "a matrix that is too large": (
        ValueError, "a relation as bytes: .* would take", lambda: related(70_000).matrix(),
    ),
    "a producer that is no node": (
        IndexError, "field producer, entry 0: nodes are numbered 0 to 1, found 7",
        lambda: graph(producer=i32(7)),
    ),
    "a stream like a star": (
        IndexError, "field stream, entry 0: streams", lambda: graph(stream=i32(INT32_MAX, 0)),
    ),
    "offsets that fall": (
        ValueError, "field consumer_offsets, entry 2: at least 0 above 1",
        lambda: graph(producer=i32(0, 0), consumer_offsets=i64(0, 1, 0), consumers=i32(1)),
    ),
    "control of threes": (
        ValueError, "field control: rows of 2",
        lambda: graph(control=np.zeros((2, 3), np.int32)),
    ),
    "safety by a producer that is no node": (
        IndexError, "field producer", lambda: _core.DescendantSafety(
            **graph_columns(producer=i32(-1 << 31))),
    ),
    "safety by an arc that leads backwards": (
        ValueError, "field control, entry 0: an arc leads from a node to a later one",
        lambda: _core.DescendantSafety(**graph_columns(control=np.array([[1, 0]], np.int32))),
    ),
    "safety of another plan": (
        ValueError, "field size: one entry a tensor of the graph",
        lambda: _core.DescendantSafety(**graph_columns()).find_overlap(i64(0, 0), i64(1, 1)),
    ),
    "clocks that would take too much": (
        ValueError, "clocks of nodes: 40000 times 40000 entries would take 5 GiB",
        lambda: _core.unsafe_by_clocks(graph(stream=np.arange(40_000, dtype=np.int32))),
    ),
    "members that do not exist": (
        IndexError, "field members, entry 1", lambda: blocks(members=i32(0, INT32_MAX)),
    ),
    "a member twice": (ValueError, "one block and once", lambda: blocks(members=i32(1, 1))),
    "offsets of blocks that leave the members": (
        ValueError, "field offsets", lambda: blocks(offsets=i64(0, 1 << 40, 2)),
    ),
    "a modulus that is no power of two": (
        ValueError, "a power of two is needed, found 3", lambda: blocks(modulus=i64(1, 3)),
    ),
    "other sizes than the blocks have": (
        ValueError, "field size of blocks, entry 1: its members have 9 bytes",
        lambda: instance(size=i64(3, 9)),
    ),
    "fewer tensors than the blocks have": (
        ValueError, "field size: one entry a tensor of the blocks", lambda: instance(size=i64(3)),
    ),
    "a segment that ends before it starts": (
        ValueError, "field segments, entry 1: an end above its start, 5",
        lambda: instance(rows((0, 0, 1), (1, 5, 2))),
    ),
    "segments out of order": (
        ValueError, "rows are sorted by tensor", lambda: instance(rows((1, 0, 1), (0, 0, 1))),
    ),
    "a tensor without a segment": (
        ValueError, "every tensor has a row, found none of 1", lambda: instance(rows((0, 0, 1))),
    ),
    "a relation of other tensors": (
        ValueError, "field unsafe: one entry a tensor is needed, found 1 for 2",
        lambda: _core.Instance.from_rows(i64(3, 4), blocks(), related(1)),
    ),
    "a graph of other tensors": (
        ValueError, "field producer: one entry a tensor is needed, found 1 for 2",
        lambda: _core.Instance.from_graph(i64(3, 4), blocks(), graph()),
    ),
    "a tensor that an instance does not have": (
        IndexError, "field tensor: tensors are numbered 0 to 1", lambda: instance().unsafe_with(2),
    ),
    "an order with a block twice": (ValueError, "every block comes once", lambda: place(i32(1, 1))),
    "an order with a block that is none": (IndexError, "field order", lambda: place(i32(0, 2))),
    "offsets that overflow": (
        ValueError, "field offsets, entry 1",
        lambda: _core.forbidden_starts(instance(), i64(0, INT64_MAX), 0),
    ),
    "sizes that overflow together": (
        OverflowError, "field size, entry 1: all bytes together",
        lambda: _core.AntichainSearch(
            graph(producer=i32(0, 0), consumer_offsets=i64(0, 1, 1)), i64(HUGE, HUGE)),
    ),
    "offset and size that overflow": (
        OverflowError, r"offset \+ size stays below",
        lambda: _core.find_overlap_in_time(i64(INT64_MAX), i64(1), rows((0, 0, 1))),
    ),
    "no number of seconds": (
        ValueError, "field seconds: a number is needed, found nan",
        lambda: _core.AntichainSearch(graph(), i64(1)).run(float("nan")),
    ),
    "layers of a request that ends before it starts": (
        ValueError, "field end, entry 0: an end above its start, 5",
        lambda: _core.plan_in_layers(i64(1), i64(5), i64(2), False, True, 1.0),
    ),
    "layers of too many bytes": (
        OverflowError, "field size, entry 1",
        lambda: _core.plan_in_layers(i64(HUGE, HUGE), i64(0, 0), i64(9, 9), True, True, 1.0),
    ),
    "layers in another order": (
        ValueError, "requests come by falling size",
        lambda: _core.plan_in_layers(i64(1, 2), i64(0, 0), i64(1, 1), True, True, 1.0),
    ),
    "layers by other than starts": (
        ValueError, "field start, entry 1: requests come by their starts",
        lambda: _core.memory_layers(i64(5, 1), i64(6, 2)),
    ),
    "guests on top of a host that is too high": (
        OverflowError, "field guest_size, entry 0",
        lambda: _core.fuse_local_plans(
            i64(HUGE), i64(0), i64(9), i64(0), i64(HUGE), i64(0), i64(9), False, 1.0),
    ),
    "a host at an address that overflows": (
        OverflowError, "field address, entry 0",
        lambda: _core.fuse_local_plans(
            i64(1), i64(0), i64(9), i64(INT64_MAX), i64(1), i64(0), i64(9), True, 1.0),
    ),
    "a search of a modulus that overflows": (
        OverflowError, "field modulus", lambda: searched(modulus=i64(1 << 62)),
    ),
    "a search of blocks that overflow": (
        OverflowError, "field size", lambda: searched(before=i64(HUGE), size=i64(HUGE)),
    ),
    "a search of a lifetime that is no number": (
        ValueError, "field lifetime, entry 0: at least 0 is needed, found nan",
        lambda: searched(lifetime=np.full(1, np.nan)),
    ),
    "a search of more sections than anybody has": (
        ValueError, "at most 16777216 sections of members", lambda: searched(sections=INT32_MAX),
    ),
    "a canonical search of a block that has no member": (
        ValueError, "field size: one entry a block is needed, found 1 for 2",
        lambda: _core.CanonicalSearch(
            searched(modulus=i64(1, 1), residue=i64(0, 0), pinned=i64(-1, -1)), 1.0),
    ),
    "a search of residues of other blocks": (
        ValueError, "field residue: one entry a block", lambda: searched(residue=i64(0, 0)),
    ),
    "a search of pins of other blocks": (
        ValueError, "field pinned: one entry a block", lambda: searched(pinned=i64(-1, -1)),
    ),
    "a search of lifetimes of other members": (
        ValueError, "field lifetime: one entry a member", lambda: searched(lifetime=np.ones(2)),
    ),
    "a search of rows of twos": (
        ValueError, "rows", lambda: searched(rows=np.zeros((1, 2), np.int64)),
    ),
    "a search of a member without a section": (
        ValueError, "every member needs a section", lambda: searched(rows=rows()),
    ),
    "sections of a tensor that is none": (
        IndexError, "tensors are numbered 0 to", lambda: _core.section_ranges(1, rows((1, 0, 1))),
    ),
    "sections of a tensor below zero": (
        IndexError, "tensors are numbered 0 to", lambda: _core.section_ranges(1, rows((-1, 0, 1))),
    ),
    "sections of rows of twos": (
        ValueError, r"rows \(tensor, start, end\)",
        lambda: _core.section_ranges(1, np.zeros((1, 2), np.int64)),
    ),
    "a host of fewer addresses": (
        ValueError, "field address: one entry a request of the host",
        lambda: _core.fuse_local_plans(
            i64(1), i64(0), i64(9), i64(0, 0), i64(1), i64(0), i64(9), False, 1.0),
    ),
    "guests of more starts": (
        ValueError, "field start: one entry a size",
        lambda: _core.fuse_local_plans(
            i64(1), i64(0), i64(9), i64(0), i64(1), i64(0, 0), i64(9), False, 1.0),
    ),
    "a search as deep as no stack": (
        ValueError, "at most 20000 members", lambda: make([1] * 20_001, []),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_told_in_a_line(name: str) -> None:
    error, rule, call = BROKEN[name]
    with pytest.raises(error, match=rule) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_arrays_that_change_later_change_nothing() -> None:
    size, members, segments = i64(3, 4), i32(0, 1), rows((0, 0, 1), (1, 0, 1))
    made = _core.Instance.from_segments(size, blocks(members=members), segments)
    order = i32(0, 1)
    arguments = (order, _core.Fit.FIRST, _core.ChainRule.EXACT, _core.NO_LIMIT, 1.0)
    offsets, placed, _ = _core.place_single_object(made, *arguments)
    size[:], members[:], segments[:] = -1, INT32_MAX, INT64_MAX
    again, placed_again, _ = _core.place_single_object(made, *arguments)
    assert (offsets.tolist(), placed) == (again.tolist(), placed_again) == ([0, 3], 2)


@pytest.mark.parametrize("capacity", [-(1 << 63), -1, 0, 1 << 62, INT64_MAX])
@pytest.mark.parametrize("scale", [1, 1 << 55])
def test_any_capacity_is_answered(capacity: int, scale: int) -> None:
    problem = make([3 * scale, 4 * scale], [(0, 0, 1), (1, 0, 1)], modulus=[8, 8])
    single = _core.CanonicalSearch(problem, 1.0)
    chains = _core.DisjunctiveSearch(problem, 1.0)
    verdicts = {
        single.decide(capacity, ORDER, 100, 0, 0, rules_of(), 1.0).verdict,
        chains.decide(capacity, 100, True, False, 1.0).verdict,
    }
    assert verdicts == {_core.Verdict.FITS if capacity > 0 else _core.Verdict.REFUTED}
