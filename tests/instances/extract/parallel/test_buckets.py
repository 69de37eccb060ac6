"""Buckets of gradients, and the all-reduce that follows each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.extract.parallel.buckets import fill_buckets, insert_all_reduces
from instances.extract.tracing.storages import Kernel, StepPhase
from tests.instances.extract.hand_made import backward_of

BACKWARD, OPTIMIZER = StepPhase.BACKWARD, StepPhase.OPTIMIZER


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [
        ([], []),
        ([4, 6], [[0, 1]]),
        ([4, 7], [[0], [1]]),
        ([25, 1, 1], [[0], [1, 2]]),
        ([1, 25, 1], [[0], [1], [2]]),
        ([0, 10, 0], [[0, 1, 2]]),
    ],
)
def test_buckets_of_ten_bytes(sizes: list[int], buckets: list[list[int]]) -> None:
    assert fill_buckets(sizes, 10) == buckets


@given(st.lists(st.integers(0, 30)), st.integers(1, 40))
def test_buckets_until_full_keep_the_order_and_are_closed_as_soon_as_full(
    sizes: list[int], capacity: int
) -> None:
    buckets = fill_buckets(sizes, capacity, until_full=True)
    assert [position for bucket in buckets for position in bucket] == list(range(len(sizes)))
    for bucket in buckets:
        assert sum(sizes[position] for position in bucket[:-1]) < capacity
    for bucket in buckets[:-1]:
        assert sum(sizes[position] for position in bucket) >= capacity


@given(st.lists(st.integers(0, 30)), st.integers(1, 40))
def test_buckets_keep_the_order_fit_and_are_closed_only_when_full(
    sizes: list[int], capacity: int
) -> None:
    buckets = fill_buckets(sizes, capacity)
    assert [position for bucket in buckets for position in bucket] == list(range(len(sizes)))
    totals = [sum(sizes[position] for position in bucket) for bucket in buckets]
    for bucket, total in zip(buckets, totals, strict=True):
        assert total <= capacity or len(bucket) == 1
    for total, following in zip(totals, buckets[1:], strict=False):
        assert total + sizes[following[0]] > capacity


def test_an_all_reduce_follows_the_last_gradient_of_its_bucket() -> None:
    kernels = [*backward_of(2, 0, 1), Kernel("sub", OPTIMIZER, reads=(0, 1, 2))]
    merged, buckets = insert_all_reduces(kernels, [0, 1, 2], [5, 5, 5], 10)
    # In the order in which they are ready, not in that of the parameters.
    assert buckets == [(2, 0), (1,)]
    assert [kernel.op for kernel in merged] == ["mm", "mm", "all_reduce", "mm", "all_reduce", "sub"]
    assert merged[2] == Kernel("all_reduce", BACKWARD, writes=(2, 0))


def test_an_all_reduce_waits_for_the_backward_pass_to_read_a_gradient() -> None:
    late = Kernel("add", BACKWARD, reads=(0,), creates=(2,))
    kernels = [*backward_of(0, 1), late, Kernel("sub", OPTIMIZER, reads=(0, 1))]
    merged, buckets = insert_all_reduces(kernels, [0, 1], [5, 5, 5], 10)
    assert buckets == [(1, 0)]
    assert [kernel.op for kernel in merged] == ["mm", "mm", "add", "all_reduce", "sub"]


def test_gradients_of_one_kernel_keep_the_order_of_the_parameters() -> None:
    kernels = [Kernel("norm_backward", BACKWARD, creates=(2, 1, 0))]
    assert insert_all_reduces(kernels, [0, 1, 2], [1, 1, 1], 10)[1] == [(0, 1, 2)]
