"""The frame of every family: checked parameters, and problems that tell origin and known plan."""

from __future__ import annotations

import functools
import inspect
import platform
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, NamedTuple, ParamSpec

import numpy as np

from planners.errors import InstanceError, errors_at
from planners.files.file_limits import END_OF_INTEGERS, whole_number
from planners.model.columns import IntColumn
from planners.model.problem import Problem, Scalar
from planners.text.plain_text import shown

MIB = 1 << 20
# Every size is a multiple of this, as the sizes of GPU allocators are.
UNIT_BYTES = 512


def random_size(rng: random.Random) -> int:
    """Return a size like those of a training step: most are small, some are huge."""
    return min(UNIT_BYTES * max(1, int(rng.lognormvariate(4, 3))), 64 * MIB)


COMMAND = "python -m instances synthetic"

Parameter = int | float
Parameters = ParamSpec("Parameters")

# The largest value of a number of tensors, layers and the like; the largest instance that a study
# makes has as many tensors.
MOST = 10_000_000
# The largest value of each parameter that does not count tensors, layers or the like.
MOST_OF = {"steps": 1 << 40, "units": 1 << 40, "seed": END_OF_INTEGERS - 1}


@dataclass(frozen=True)
class Drawing:
    """A problem that lacks its origin."""

    # Takes a name and an origin.
    make: Callable[..., Problem]
    name: str
    # Least peak in bytes, why no plan has less, and the offsets of a plan of that peak.
    optimum: int | None = None
    proof: str = ""
    offset: IntColumn | None = None


def family(
    **least: int,
) -> Callable[[Callable[Parameters, Drawing]], Callable[Parameters, Problem]]:
    """Turn a function that draws into one that makes problems whose origin has name and parameters.

    `least` has the least values of whole-number parameters; `MOST_OF` and `MOST` bound them above.
    """

    def family_of(draw: Callable[Parameters, Drawing]) -> Callable[Parameters, Problem]:
        signature = inspect.signature(draw)

        @functools.wraps(draw)
        def make(*args: Parameters.args, **options: Parameters.kwargs) -> Problem:
            asked = signature.bind(*args, **options)
            asked.apply_defaults()
            with errors_at(f"family {draw.__name__.replace('_', '-')}"):
                for name, value in asked.arguments.items():
                    kinds = str(signature.parameters[name].annotation)
                    if "int" in kinds and not (value is None and "None" in kinds):
                        if type(value) is not int:
                            whole_number(value, f"parameter {name}")
                        most = MOST_OF.get(name, MOST)
                        require_between(name, value, least.get(name, -most), most)
                drawing = draw(*args, **options)
                origin = _origin(draw.__name__, asked.arguments, drawing)
                return drawing.make(name=drawing.name, origin=origin)

        return make

    return family_of


def require_between(parameter: str, value: float, least: float, most: float) -> None:
    """Refuse a parameter outside its range."""
    # In this form the test refuses NaN as well.
    if not least <= value <= most:
        raise InstanceError(
            f"parameter {parameter}: {least} to {most} is needed, found {shown(value)}"
        )


def _origin(
    generator: str, parameters: Mapping[str, Parameter | None], drawing: Drawing
) -> dict[str, Scalar]:
    given = {key: value for key, value in parameters.items() if value is not None}
    options = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in given.items())
    origin: dict[str, Scalar] = {"generator": generator, **given}
    origin["command"] = f"{COMMAND} {generator.replace('_', '-')} {options}"
    if drawing.optimum is not None:
        origin |= {"optimum": drawing.optimum, "proof": drawing.proof}
    return origin | {"python": platform.python_version(), "numpy": np.__version__}


# The proof for a rectangle that is filled without a gap.
PERFECT = "tensors fill time x memory up to this height: no step needs less, the packing no more"


class Rectangle(NamedTuple):
    """A tensor with its place: steps ``[start, end)``, units of memory ``[bottom, top)``."""

    start: int
    end: int
    bottom: int
    top: int

    @property
    def area(self) -> int:
        """Steps times units."""
        return (self.end - self.start) * (self.top - self.bottom)


@dataclass(frozen=True, eq=False)
class Packing:
    """Tensors with the offsets of a plan that is known."""

    # int64 bytes, one a tensor.
    size: IntColumn
    # int64 steps, one a tensor, half-open.
    start: IntColumn
    end: IntColumn
    offset: IntColumn

    @property
    def height(self) -> int:
        """Peak of the known plan in bytes."""
        return int((self.offset + self.size).max(initial=0))

    def drawing(self, name: str, proof: str, **more: Any) -> Drawing:
        """Return the tensors as a drawing whose known plan is optimal, with more fields."""
        make = partial(Problem, self.size, self.start, self.end, **more)
        return Drawing(make, name, self.height, proof, self.offset)


def pack(rectangles: Iterable[Rectangle], rng: Random) -> Packing:
    """Return rectangles as tensors in the order in which a program would allocate them.

    Tensors that start together come in random order. Greedy planners break ties by the index of a
    tensor, so an order that follows from the offsets would tell them the plan.
    """
    ordered = list(rectangles)
    rng.shuffle(ordered)
    ordered.sort(key=lambda rectangle: rectangle.start)
    start, end, bottom, top = np.array(ordered, dtype=np.int64).T
    return Packing((top - bottom) * UNIT_BYTES, start, end, bottom * UNIT_BYTES)
