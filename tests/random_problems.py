"""Random problems as Hypothesis draws and shrinks them."""

from __future__ import annotations

from hypothesis import strategies as st

from planners import Problem, Safety
from planners.testing.random_problems import FEATURES, Count, random_problem


@st.composite
def problems(
    draw: st.DrawFn,
    tensors: Count = (0, 8),
    *,
    safeties: tuple[Safety, ...] = tuple(Safety),
    features: frozenset[str] = FEATURES,
) -> Problem:
    """Return a Hypothesis strategy for what :func:`random_problem` returns."""
    safety = draw(st.sampled_from(safeties))
    rng = draw(st.randoms(use_true_random=False))
    return random_problem(rng, safety, tensors, features=features)
