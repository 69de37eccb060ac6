"""Units of a model whose parameters are gathered together, and when each is used."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

# A unit stays gathered between two of its uses when at most so many other units are used in
# between. One is what tied weights, and biases at the seam of two units, need.
UNITS_BETWEEN = 1


def layer_of(name: str) -> str | None:
    """Return the path up to its first number, ``"encoder.layer.3"``; none outside any layer."""
    path = name.split(".")
    for index, part in enumerate(path):
        if part.isdecimal():
            return ".".join(path[: index + 1])
    return None


def group_units(parameters: Sequence[int], name: Mapping[int, str]) -> list[list[int]]:
    """Group parameters, in the order of their first readers: layers, and what lies between them.

    Embeddings before the first layer are one unit, the head behind the last one another.
    """
    units: dict[str, list[int]] = {}
    layer: str | None = None
    runs = 0
    for parameter in parameters:
        previous, layer = layer, layer_of(name[parameter])
        if layer is None and (previous is not None or not units):
            runs += 1
        # No path starts with a dot, so a run is never taken for a layer.
        units.setdefault(f".{runs}" if layer is None else layer, []).append(parameter)
    return list(units.values())


@dataclass(frozen=True)
class Residency:
    """A stretch of the step in which a unit is gathered."""

    unit: int
    # Nodes that read its parameters, at least one, in order.
    readers: tuple[int, ...]


def find_residencies(uses: Sequence[Collection[int]]) -> list[Residency]:
    """Divide the uses of each unit into stretches that one gather serves.

    Between two uses a unit is released, unless at most :data:`UNITS_BETWEEN` other units are
    used in between. So a layer is gathered once for the forward and once for the backward pass
    (recomputation included), tied weights once for each end of the model, and the last layer,
    whose backward pass follows at once, is kept. They are in the order of first readers.
    """
    readers: list[list[int]] = []
    unit_of: list[int] = []
    stretch_of: dict[int, int] = {}
    latest_use: dict[int, int] = {}
    for node, used in enumerate(uses):
        for unit in sorted(used):
            used_between = sum(
                latest > latest_use.get(unit, node) for latest in latest_use.values()
            )
            if unit not in stretch_of or used_between > UNITS_BETWEEN:
                stretch_of[unit] = len(readers)
                readers.append([])
                unit_of.append(unit)
            readers[stretch_of[unit]].append(node)
        latest_use.update(dict.fromkeys(used, node))
    return [Residency(*pair) for pair in zip(unit_of, map(tuple, readers), strict=True)]


def find_runs(uses: Sequence[Collection[int]]) -> list[list[int]]:
    """Divide the nodes that use any units into runs that use the same ones."""
    used = [(node, frozenset(units)) for node, units in enumerate(uses) if units]
    return [[node for node, _ in run] for _, run in groupby(used, key=lambda pair: pair[1])]
