"""What a problem has, tensor by tensor."""

from __future__ import annotations

from planners import Problem


def rows_of(problem: Problem) -> dict[str, tuple[int, int, int]]:
    """Return size, start and end of each tensor by its name."""
    assert problem.tensor_name is not None
    columns = zip(problem.size.tolist(), problem.start.tolist(), problem.end.tolist(), strict=True)
    return dict(zip(problem.tensor_name, columns, strict=True))
