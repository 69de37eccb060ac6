"""Streams by category and by role."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.extract.kernels.streams import (
    Category,
    StreamScheme,
    assign_streams,
    category_of,
    count_open,
    dealt_again,
    find_successions,
)
from planners import Graph, InstanceError, Problem, read_problem
from tests.repository import ROOT


def test_a_stream_is_of_one_category_and_a_full_one_is_followed_by_a_new_one() -> None:
    ops = ["input", "mm", "mm", "all_reduce", "mm", "cat", "mm", "mm", "all_reduce"]
    assert assign_streams(ops, 2) == [0, 1, 1, 2, 3, 0, 3, 4, 2]


@given(st.lists(st.sampled_from(["mm", "all_reduce", "cat", "input"])), st.integers(1, 5))
def test_streams_hold_few_nodes_of_one_category_in_order(ops: list[str], limit: int) -> None:
    streams = assign_streams(ops, limit)
    assert list(dict.fromkeys(streams)) == list(range(len(set(streams))))
    categories = [category_of(op) for op in ops]
    assert len(set(zip(streams, categories, strict=True))) == len(set(streams))
    for category in Category:
        own = [s for s, of in zip(streams, categories, strict=True) if of is category]
        assert own == sorted(own)
        counts = list(Counter(own).values())
        assert all(count == limit for count in counts[:-1])
        assert all(count <= limit for count in counts)


def test_by_role_collectives_and_copies_from_the_host_have_a_stream_each() -> None:
    ops = ["input", "all_gather", "mm", "cat", "all_to_all", "reduce_scatter", "sub", "output"]
    assert assign_streams(ops, 1, StreamScheme.ROLES) == [0, 1, 2, 2, 1, 1, 2, 0]


@pytest.mark.parametrize("op", ["all_gather", "all_reduce", "all_to_all", "reduce_scatter"])
def test_collectives_communicate(op: str) -> None:
    assert category_of(op) is Category.COMMUNICATION


def test_a_stream_succeeds_the_full_one_of_its_category() -> None:
    ops = ["input", "mm", "mm", "all_reduce", "mm", "cat", "mm", "mm", "all_reduce"]
    streams = assign_streams(ops, 2, StreamScheme.SUCCESSION)
    assert streams == assign_streams(ops, 2)
    assert find_successions(ops, streams) == [(2, 4), (6, 7)]
    assert find_successions(ops, assign_streams(ops, 5)) == []


CATEGORY, SUCCESSION = StreamScheme.CATEGORY, StreamScheme.SUCCESSION
INSTANCES = ROOT / "instances"


def unsafe_share(problem: Problem) -> float:
    count = problem.tensor_count
    return float(problem.core.unsafe_degrees().sum()) / (count * (count - 1))


def updates(count: int, length: int) -> Problem:
    """Return so many chains of so many nodes, one after the other, that have nothing in common."""
    nodes = count * length
    ends = range(length - 1, nodes, length)
    return Problem(
        [1] * nodes,
        graph=Graph(
            op=["mul"] * nodes,
            stream=[0] * nodes,
            producer=range(nodes),
            consumers=[[] if node in ends else [node + 1] for node in range(nodes)],
        ),
    )


@pytest.mark.parametrize(
    ("limit", "open_count", "count"),
    [
        (12, 0, 0),  # all on one stream
        (7, 0, 1),  # begins in the middle of an update
        (6, 1, 1),  # begins with one
        (4, 0, 2),
        (3, 3, 3),
        (2, 1, 5),
    ],
)
def test_a_stream_is_open_where_it_begins_with_an_update(
    limit: int, open_count: int, count: int
) -> None:
    graph = dealt_again(updates(4, 3), limit, CATEGORY).graph
    assert graph is not None
    assert count_open(graph) == (open_count, count)


def test_pairs_across_an_open_stream_are_unsafe() -> None:
    # Two streams of six nodes each, nothing between them: 36 pairs, and in either the neighbours.
    halves = dealt_again(updates(4, 3), 6, CATEGORY)
    whole = dealt_again(updates(4, 3), 12, CATEGORY)
    pairs = 12 * 11 / 2
    assert unsafe_share(halves) - unsafe_share(whole) == pytest.approx(36 / pairs)


@pytest.mark.parametrize(("limit", "percent"), [(349, 38.1), (350, 6.1), (351, 6.1)])
def test_the_committed_instance_jumps_with_the_limit(limit: int, percent: float) -> None:
    bert = read_problem(INSTANCES / "bert.json")
    share = unsafe_share(dealt_again(bert, limit, CATEGORY))
    assert round(100 * share, 1) == percent


@pytest.mark.parametrize("name", ["bert.json", "resnet-50.json.gz"])
def test_dealt_as_it_was_an_instance_has_the_pairs_that_it_had(name: str) -> None:
    problem = read_problem(INSTANCES / name)
    again = dealt_again(problem, 350, CATEGORY)
    assert again.stream_count == problem.stream_count
    assert again.core.unsafe_degrees().tolist() == problem.core.unsafe_degrees().tolist()


def test_in_succession_no_pair_depends_on_the_limit() -> None:
    problem = read_problem(INSTANCES / "resnet-50.json.gz")
    whole = dealt_again(problem, problem.tensor_count * 10, CATEGORY).core.unsafe_degrees()
    for limit in (1, 7, 100, 349, 350):
        dealt = dealt_again(problem, limit, SUCCESSION)
        assert dealt.core.unsafe_degrees().tolist() == whole.tolist()


def test_lifetimes_alone_cannot_be_dealt() -> None:
    with pytest.raises(InstanceError, match="a graph is needed to deal its nodes"):
        dealt_again(Problem([1], [0], [1]), 3, CATEGORY)
