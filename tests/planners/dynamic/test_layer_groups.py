"""Groups of dynamic tensors: a visit of a layer that allocates, and one that frees."""

from __future__ import annotations

from hypothesis import given

from planners.dynamic.layer_groups import layer_groups
from planners.model.problem import Problem
from tests.definitions import steps_needed
from tests.planners.dynamic.dynamic_problems import MAX_STEP, dynamic_problems

Visit = tuple[int, int]


def visits_of(problem: Problem, tensor: int) -> tuple[Visit, Visit]:
    """Return the visits that allocate and free a tensor, as the Note describes them."""
    found = []
    for layers, phases, steps in (
        (problem.layer_start, problem.phase_start, problem.start),
        (problem.layer_end, problem.phase_end, problem.end),
    ):
        layer = -1 if layers is None else int(layers[tensor])
        phase = 0 if phases is None else int(phases[tensor])
        before = [step for step in static_steps(problem) if step <= steps[tensor]]
        found.append((layer, phase) if layer >= 0 else (-1, len(before)))
    return found[0], found[1]


def static_steps(problem: Problem) -> list[int]:
    """Return the steps at which a static tensor begins or ceases to need memory."""
    assert problem.dynamic is not None
    changes: set[int] = set()
    for tensor in range(problem.tensor_count):
        if not problem.dynamic[tensor]:
            needed = steps_needed(problem, tensor)
            changes |= {s for s in needed if s - 1 not in needed}
            changes |= {s + 1 for s in needed if s + 1 not in needed}
    return sorted(changes)


def span_of(problem: Problem, visit: Visit) -> tuple[int, int]:
    """Return the first and the last step of a visit."""
    changes = static_steps(problem)
    inside = []
    for tensor in range(problem.tensor_count):
        allocates, frees = visits_of(problem, tensor)
        inside += [int(problem.start[tensor])] if allocates == visit else []
        inside += [int(problem.end[tensor])] if frees == visit else []
    if visit[0] >= 0:
        return min(inside), max(inside)
    first = changes[visit[1] - 1] if visit[1] > 0 else min(inside)
    last = changes[visit[1]] - 1 if visit[1] < len(changes) else max(inside)
    return first, last


@given(dynamic_problems())
def test_groups_are_pairs_of_visits(problem: Problem) -> None:
    assert problem.dynamic is not None
    groups = layer_groups(problem)
    assert groups.tensors.tolist() == [t for t, d in enumerate(problem.dynamic.tolist()) if d]
    rows = [tuple(row) for row in groups.visits.tolist()]
    assert rows == sorted(set(rows))
    assert set(groups.group.tolist()) == set(range(len(groups.visits)))
    for tensor, group in zip(groups.tensors.tolist(), groups.group.tolist(), strict=True):
        allocates, frees = visits_of(problem, tensor)
        assert groups.visits[group].tolist() == [*allocates, *frees]
        begin, end = groups.times[group].tolist()
        assert begin == span_of(problem, allocates)[0]
        assert end == span_of(problem, frees)[1] + 1
        assert begin <= problem.start[tensor]
        assert end >= problem.end[tensor]
        assert 0 <= begin < end <= MAX_STEP + 1


def test_each_microbatch_has_its_own_visit_of_a_layer() -> None:
    """Layer 7 allocates and frees in the forward of two microbatches, and in the backward of one.

    phase   0        1        2
    x       [--)
    y                [---)
    z           [----------------)   (static, allocated by layer 7 as well)
    """
    problem = Problem(
        [1, 1, 1], [0, 10, 3], [2, 13, 21], dynamic=[True, True, False],
        layer_start=[7, 7, 7], layer_end=[7, 7, 7], phase_start=[0, 1, 0], phase_end=[0, 1, 2],
    )  # fmt: skip
    groups = layer_groups(problem)
    assert groups.visits.tolist() == [[7, 0, 7, 0], [7, 1, 7, 1]]
    # Not [0, 22), as it would be if a layer were one thing all through the iteration. The visit in
    # phase 0 lasts until the static tensor of the layer is allocated in step 3.
    assert groups.times.tolist() == [[0, 4], [10, 14]]


def test_nothing_dynamic_gives_no_group() -> None:
    groups = layer_groups(Problem([1], [0], [1]))
    assert groups.visits.shape == (0, 4)
    assert groups.times.shape == (0, 2)
