"""Requests for the stages: of the tests' own form, and of the package's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from planners.homosize.requests import Requests
from tests.planners.homosize.published import Request


@st.composite
def requests(draw: st.DrawFn, least: int = 1, most: int = 14) -> list[Request]:
    """Return a strategy for requests whose phases are five instants long."""
    drawn = []
    for _ in range(draw(st.integers(least, most))):
        ts = draw(st.integers(0, 19))
        te = ts + draw(st.integers(0, 9))
        drawn.append(Request(draw(st.integers(1, 7)), ts, te, ts // 5, te // 5))
    return drawn


def columns(requests: Sequence[Request]) -> Requests:
    """Return requests with half-open lifetimes, as the package has them."""

    def column(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    return Requests(
        np.arange(len(requests)),
        column([m.s for m in requests]),
        column([m.ts for m in requests]),
        column([m.te + 1 for m in requests]),
        column([m.ps for m in requests]),
        column([m.pe for m in requests]),
    )
