"""What makes a function a family: its problems say what makes them again, and their optimum."""

from __future__ import annotations

import functools
import inspect
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np

from planners.errors import InstanceError, errors_at
from planners.files.file_limits import END_OF_INTEGERS, whole_number
from planners.model.problem import Problem, Scalar
from planners.text.plain_text import shown

COMMAND = "python -m instances synthetic"

Parameter = int | float
"""What a family may be asked for."""

Parameters = ParamSpec("Parameters")

# The largest value of a number of tensors, layers and the like; the largest instance that a study
# makes has as many tensors.
MOST = 10_000_000
# The largest value of each parameter that counts nothing that is made.
MOST_OF = {"steps": 1 << 40, "units": 1 << 40, "seed": END_OF_INTEGERS - 1}


@dataclass(frozen=True)
class Drawing:
    """A problem that has yet to be told where it comes from."""

    # Takes a name and an origin.
    make: Callable[..., Problem]
    name: str
    # Least peak in bytes, where it is known, and why that is so.
    optimum: int | None = None
    proof: str = ""


def family(
    **least: int,
) -> Callable[[Callable[Parameters, Drawing]], Callable[Parameters, Problem]]:
    """Return what makes problems of what draws them; the name and the parameters are the origin.

    Given is the least value of each whole number that has one; none may be larger than `MOST_OF`.
    """

    def family_of(draw: Callable[Parameters, Drawing]) -> Callable[Parameters, Problem]:
        signature = inspect.signature(draw)

        @functools.wraps(draw)
        def make(*args: Parameters.args, **options: Parameters.kwargs) -> Problem:
            asked = signature.bind(*args, **options)
            asked.apply_defaults()
            with errors_at(f"family {draw.__name__.replace('_', '-')}"):
                for name, value in asked.arguments.items():
                    if value is not None and "int" in str(signature.parameters[name].annotation):
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
    # Written so that what is not a number is refused as well.
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
