"""Units, and the stretches in which they are gathered."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.extract.parallel.sharding import (
    UNITS_BETWEEN,
    Residency,
    find_residencies,
    find_runs,
    group_units,
    layer_of,
)

USES = st.lists(st.sets(st.integers(0, 4), max_size=2), max_size=20)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("encoder.layer.3.output.weight", "encoder.layer.3"),
        ("layers.10.experts.2.weight", "layers.10"),
        ("embeddings.weight", None),
        ("conv1.weight", None),
    ],
)
def test_a_layer_ends_with_the_first_number(name: str, layer: str | None) -> None:
    assert layer_of(name) == layer


def test_what_lies_between_layers_is_a_unit() -> None:
    names = ["word", "position", "h.0.w", "h.1.w", "norm", "head"]
    assert group_units(range(6), dict(enumerate(names))) == [[0, 1], [2], [3], [4, 5]]


def test_a_layer_is_one_unit_even_where_something_is_read_in_between() -> None:
    names = ["h.0.w", "shared", "h.0.v", "head"]
    assert group_units(range(4), dict(enumerate(names))) == [[0, 2], [1], [3]]


def test_a_layer_is_gathered_for_each_pass_and_the_last_two_are_kept() -> None:
    # Forward and backward over four layers.
    uses = [{0}, {1}, {2}, {3}, {3}, {2}, {1}, {0}]
    assert find_residencies(uses) == [
        Residency(0, (0,)),
        Residency(1, (1,)),
        Residency(2, (2, 5)),
        Residency(3, (3, 4)),
        Residency(1, (6,)),
        Residency(0, (7,)),
    ]


def test_tied_weights_are_gathered_once_for_each_end() -> None:
    uses = [{0}, {1}, {2}, {0, 3}, {0, 3}, {2}]
    # Between its uses of the two passes two units are used, so unit 2 is not kept.
    assert find_residencies(uses) == [
        Residency(0, (0,)),
        Residency(1, (1,)),
        Residency(2, (2,)),
        Residency(0, (3, 4)),
        Residency(3, (3, 4)),
        Residency(2, (5,)),
    ]


def test_runs_use_the_same_units() -> None:
    uses: list[set[int]] = [set(), {0}, set(), {0}, {0, 1}, {1}, {0}]
    assert find_runs(uses) == [[1, 3], [4], [5], [6]]


@given(USES)
def test_a_gather_serves_uses_between_which_few_other_units_are_used(uses: list[set[int]]) -> None:
    residencies = find_residencies(uses)
    assert [r.readers[0] for r in residencies] == sorted(r.readers[0] for r in residencies)
    for unit in set().union(*uses):
        nodes = [node for node, used in enumerate(uses) if unit in used]
        served = [r.readers for r in residencies if r.unit == unit]
        assert [node for readers in served for node in readers] == nodes
        starts = {readers[0] for readers in served}
        for earlier, later in pairwise(nodes):
            others = set().union(*uses[earlier + 1 : later])
            assert (later in starts) == (len(others) > UNITS_BETWEEN)
