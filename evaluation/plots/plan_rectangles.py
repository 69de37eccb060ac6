"""The rectangles of a plan, and the classes of tensors that their colours show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.errors import GaplessError
from planners.model.bounds import Bound
from planners.model.columns import IntColumn
from planners.model.plan import Plan, Result
from planners.model.problem import Problem, Safety
from planners.text.byte_units import human_bytes


@dataclass(frozen=True)
class PlanRectangles:
    """One row a rectangle: its tensor, its steps and its bytes."""

    tensor: IntColumn
    start: IntColumn
    end: IntColumn
    low: IntColumn
    high: IntColumn

    def corners(self, chosen: NDArray[np.bool_], scale: int) -> NDArray[np.float64]:
        """Return corners of the chosen rectangles, shape (rectangles, 4, 2)."""
        left, right = self.start[chosen], self.end[chosen]
        low, high = self.low[chosen] / scale, self.high[chosen] / scale
        across = np.stack([left, right, right, left], axis=1)
        up = np.stack([low, low, high, high], axis=1)
        return np.stack([across, up], axis=2)


def rectangles_of(problem: Problem, plan: Plan) -> PlanRectangles:
    """Return a rectangle for each tensor that has bytes, or for each part between its gaps."""
    tensor, start, end = problem.segments().T
    shown = problem.size[tensor] > 0
    tensor, start, end = tensor[shown], start[shown], end[shown]
    low = plan.offsets[tensor]
    return PlanRectangles(tensor, start, end, low, low + problem.size[tensor])


def require_time(problem: Problem) -> None:
    """Refuse a problem whose tensors have no lifetimes."""
    if problem.safety is Safety.PAIRS:
        raise GaplessError(
            f"plot of {problem.name}: lifetimes are needed, found explicit unsafe pairs, which "
            "have no time"
        )


def best_bound(results: Sequence[Result], bounds: Sequence[Bound]) -> tuple[str, int]:
    """Return name and bytes of the best bound, of the given bounds and the results' own."""
    known = [(bound.bytes, bound.name) for bound in bounds]
    known += [(result.lower_bound, result.certificate) for result in results if result.certificate]
    # The first of equal bounds gives the name.
    size, name = max(known, key=lambda entry: entry[0], default=(0, "no"))
    return name, size


# Okabe & Ito, "Color Universal Design" (2008): told apart by all common kinds of colour vision.
# Their vermilion is left to the bound.
CLASS_COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#F0E442")
OTHERS_COLOUR = "#999999"
BOUND_COLOUR = "#D55E00"
INK = "#222222"
# From dark (small sizes) to light (large ones): steps of Brewer's YlGnBu, even in lightness.
SIZE_SHADES = ("#13266F", "#2355A4", "#2498C1", "#67C4BE", "#C8E9B4")


@dataclass(frozen=True)
class TensorClasses:
    """The class of each tensor, and the colours and labels of the classes."""

    title: str
    of_tensor: IntColumn
    colours: Sequence[str]
    labels: Sequence[str]
    # The value of each tensor, finer than its class; empty if the class is the value.
    value_of_tensor: Sequence[str] = ()


def default_classes(problem: Problem) -> TensorClasses:
    """Return the default classes of a picture: streams if there are several, else sizes."""
    by_stream = classes_by_stream(problem)
    return classes_by_size(problem) if by_stream is None else by_stream


def all_classes(problem: Problem) -> list[TensorClasses]:
    """Return every way to tell the tensors of a problem apart, the default one first."""
    first = default_classes(problem)
    found = [
        classes_by_size(problem),
        classes_by_kind(problem),
        classes_by_stream(problem),
        _classes_by_number(problem, "phase of the allocation", problem.phase_start),
        _classes_by_number(problem, "layer of the allocation", problem.layer_start),
        _classes_by_dynamic(problem),
    ]
    others = [classes for classes in found if classes is not None and classes.title != first.title]
    return [first, *others]


def classes_by_size(problem: Problem) -> TensorClasses:
    """Cut the range of sizes into classes that occupy equal areas of the picture."""
    size = problem.size
    area = _area(problem)
    order = np.argsort(size, kind="stable")
    share = np.cumsum(area[order])
    cuts: list[int] = []
    if len(share) and share[-1] > 0:
        parts = len(SIZE_SHADES)
        at = np.searchsorted(share, share[-1] * np.arange(1, parts) / parts)
        cuts = sorted(set(size[order][at].tolist()) - {int(size.max())})
    of_tensor = np.searchsorted(np.array(cuts, dtype=np.int64), size, side="left")
    labels = [f"up to {human_bytes(cut)}" for cut in [*cuts, int(size.max(initial=0))]]
    spread = np.linspace(0, len(SIZE_SHADES) - 1, len(labels)).round().astype(int)
    shades = [SIZE_SHADES[shade] for shade in spread]
    return TensorClasses("size", of_tensor.astype(np.int64), shades, labels)


def classes_by_stream(problem: Problem) -> TensorClasses | None:
    """Tell tensors apart by the stream of their producer; None without several streams."""
    graph = problem.graph
    if graph is None or problem.stream_count <= 1:
        return None
    return _classes_by_number(problem, "stream of the producer", graph.stream[graph.producer])


def classes_by_kind(problem: Problem) -> TensorClasses | None:
    """Tell tensors apart by the operation that makes them; None unless a graph has several."""
    graph = problem.graph
    if graph is None:
        return None
    operation = [graph.op[node] for node in graph.producer.tolist()]
    kinds, of_tensor = np.unique(np.array(operation, dtype=object), return_inverse=True)
    if len(kinds) <= 1:
        return None
    return _largest_first(problem, "operation of the producer", kinds, of_tensor, operation)


def _classes_by_number(
    problem: Problem, title: str, numbers: IntColumn | None
) -> TensorClasses | None:
    if numbers is None:
        return None
    values, of_tensor = np.unique(numbers, return_inverse=True)
    if len(values) <= 1:
        return None
    return _largest_first(problem, title, values, of_tensor, [str(n) for n in numbers.tolist()])


def _classes_by_dynamic(problem: Problem) -> TensorClasses | None:
    if problem.dynamic is None or not problem.dynamic.any():
        return None
    return TensorClasses(
        "whether the size varies", problem.dynamic.astype(np.int64), CLASS_COLOURS[:2],
        ["static", "dynamic"],
    )  # fmt: skip


def _largest_first(
    problem: Problem,
    title: str,
    values: NDArray[Any],
    of_tensor: NDArray[np.intp],
    value_of_tensor: Sequence[str],
) -> TensorClasses:
    """Give a colour to each of the values with the largest areas; all others share grey."""
    by_area = np.argsort(
        -np.bincount(of_tensor, weights=_area(problem), minlength=len(values)), kind="stable"
    )
    shown = np.sort(by_area[: len(CLASS_COLOURS)])
    class_of_value = np.full(len(values), len(shown), dtype=np.int64)
    class_of_value[shown] = np.arange(len(shown))
    colours = list(CLASS_COLOURS[: len(shown)])
    labels = [str(value) for value in values[shown].tolist()]
    if len(values) > len(shown):
        colours.append(OTHERS_COLOUR)
        labels.append(f"{len(values) - len(shown)} others")
    return TensorClasses(title, class_of_value[of_tensor], colours, labels, value_of_tensor)


def _area(problem: Problem) -> NDArray[np.float64]:
    return problem.size.astype(np.float64) * (problem.end - problem.start)
