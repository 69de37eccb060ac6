"""Streams by category and by role."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.extract.parallel.streams import (
    Category,
    StreamScheme,
    assign_streams,
    category_of,
    find_successions,
)


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
