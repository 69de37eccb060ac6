"""The parts of the exact planners, one by one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from planners import Budget, Problem, Safety, _core, place
from planners.exact.cliques import clique_cover, list_unsafe_pairs
from planners.exact.common_unit import scale_blocks
from planners.exact.model_limits import ModelTooLargeError
from planners.exact.sections import sections_of
from planners.exact.symmetry import symmetry_of
from tests.definitions import unsafe
from tests.random_problems import problems


@given(problems((0, 9)))
def test_lists_every_unsafe_pair_with_bytes(problem: Problem) -> None:
    pairs = [tuple(pair) for pair in list_unsafe_pairs(problem, 1000).tolist()]
    expected = {(a, b) for a, b in unsafe(problem) if problem.size[a] and problem.size[b]}
    assert pairs == sorted(expected)
    if pairs:
        with pytest.raises(ModelTooLargeError, match="unsafe pairs, and takes"):
            list_unsafe_pairs(problem, len(pairs) - 1)


@given(problems((0, 9)))
def test_cliques_cover_every_pair_and_nothing_else(problem: Problem) -> None:
    pairs = list_unsafe_pairs(problem, 1000)
    known = [] if problem.safety is Safety.PAIRS else sections_of(problem).live_sets()
    cliques = clique_cover(problem.tensor_count, pairs, known, Budget(), 1000)
    covered = {(a, b) for clique in cliques for b in clique for a in clique if a < b}
    assert covered == {tuple(pair) for pair in pairs.tolist()}
    assert all(clique == sorted(set(clique)) for clique in cliques)


def test_cliques_have_a_limit() -> None:
    pairs = np.array([(0, 1), (2, 3)])
    with pytest.raises(ModelTooLargeError, match="4 members of cliques, and takes 3"):
        clique_cover(4, pairs, [], Budget(), 3)


def test_an_empty_clique_covers_nothing() -> None:
    pairs, empty = np.array([(0, 1)]), np.empty(0, dtype=np.int64)
    assert clique_cover(3, pairs, [empty], Budget(), 3) == [[0, 1]]


def test_cliques_honour_the_time_limit() -> None:
    over = Budget(time_limit_seconds=0).started()
    with pytest.raises(TimeoutError):
        clique_cover(2, np.array([(0, 1)]), [], over, 3)


@given(problems((0, 9), safeties=(Safety.LIFETIMES,)))
def test_tensors_share_a_section_where_they_share_a_step(problem: Problem) -> None:
    live = [section.tolist() for section in sections_of(problem).live_sets()]
    together = {(a, b) for section in live for b in section for a in section if a < b}
    assert together == {tuple(pair) for pair in list_unsafe_pairs(problem, 1000).tolist()}
    if not len(problem.gaps):
        assert not any(set(a) <= set(b) for a in live for b in live if a is not b)


@pytest.mark.parametrize(
    ("fields", "unit", "modulus"),
    [
        ({"size": [1024, 1536]}, 512, [1, 1]),
        ({"size": [1024, 1536], "alignment": [512, 256]}, 512, [1, 1]),
        # 1024 does not divide 1536, and a third of it fits no power of two.
        ({"size": [1536, 3072], "alignment": [1024, 1]}, 512, [2, 1]),
        ({"size": [1024, 1536], "pinned": {0: 128}}, 128, [1, 1]),
        ({"size": [0, 0]}, 1, [1, 1]),
    ],
)
def test_the_unit_is_the_largest_that_loses_nothing(
    fields: dict[str, object], unit: int, modulus: list[int]
) -> None:
    scaled = scale_blocks(Problem(start=[0, 0], end=[1, 1], **fields))  # type: ignore[arg-type]
    assert (scaled.unit, scaled.modulus.tolist()) == (unit, modulus)


@given(problems((0, 9)))
def test_scaling_and_back_is_the_same_plan(problem: Problem) -> None:
    if problem.core.conflicting_pins() is not None:
        return
    scaled = scale_blocks(problem)
    plan = place(problem)
    heads = scaled.heads(problem, plan)
    if not (plan.offsets % scaled.unit).any():
        assert scaled.plan(problem, heads).offsets.tolist() == plan.offsets.tolist()


def test_a_representative_is_a_plan_that_the_search_looks_at() -> None:
    rng = random.Random(1)
    for _ in range(200):
        sizes = [rng.choice([1, 1, 2]) for _ in range(rng.randint(1, 6))]
        problem = Problem(sizes, [0] * len(sizes), [1] * len(sizes))
        scaled = scale_blocks(problem)
        symmetry = symmetry_of(problem, scaled, [()] * len(sizes))
        keys = np.array([rng.random() for _ in sizes])
        plan = place(problem, keys)
        peak = scaled.up(plan.peak)
        heads = symmetry.representative(scaled, scaled.heads(problem, plan), peak)
        assert scaled.plan(problem, heads).peak <= plan.peak
        for group in symmetry.groups:
            assert heads[group].tolist() == sorted(heads[group].tolist())
        assert symmetry.anchor is not None
        assert 2 * heads[symmetry.anchor] + scaled.size[symmetry.anchor] <= peak


def test_pulp_never_brings_highspy_into_the_process(tmp_path: Path) -> None:
    # PuLP looks for the package and loads its library, without importing it.
    package = tmp_path / "highspy"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(_core.__file__, package / "_core.so")
    program = (
        "from pathlib import Path; from planners.exact.ilp.cbc import load_cbc; load_cbc();"
        "import sys;"
        "print('pulp' in sys.modules, 'highspy' in Path('/proc/self/maps').read_text())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["True", "False"]
