"""Random problems with dynamic tensors, small enough to look at every byte in every step."""

from __future__ import annotations

from hypothesis import strategies as st

from planners.model.problem import Problem

MAX_STEP = 12


@st.composite
def dynamic_problems(draw: st.DrawFn) -> Problem:
    """Return a problem with a few tensors, with or without layers, phases and gaps."""
    count = draw(st.integers(0, 9))
    steps = st.tuples(st.integers(0, MAX_STEP), st.integers(0, MAX_STEP)).filter(
        lambda pair: pair[0] < pair[1]
    )
    lifetimes = draw(st.lists(steps, min_size=count, max_size=count))
    dynamic = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    gaps = [
        (tensor, start + 1, end - 1)
        for tensor, (start, end) in enumerate(lifetimes)
        if end - start > 2 and draw(st.booleans())
    ]

    def column(low: int, high: int) -> list[int] | None:
        if not draw(st.booleans()):
            return None
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    return Problem(
        draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)),
        [start for start, _ in lifetimes],
        [end for _, end in lifetimes],
        alignment=draw(st.lists(st.sampled_from([1, 2]), min_size=count, max_size=count)),
        gaps=gaps,
        dynamic=dynamic,
        layer_start=column(-1, 1),
        layer_end=column(-1, 1),
        phase_start=column(0, 1),
        phase_end=column(0, 1),
    )
