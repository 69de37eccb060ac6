"""What makes a function a family: its problems say what makes them again, and their optimum."""

from __future__ import annotations

import functools
import inspect
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np

from planners.errors import InstanceError
from planners.model.problem import Problem, Scalar

COMMAND = "python -m instances synthetic"

Parameter = int | float
"""What a family may be asked for."""

Parameters = ParamSpec("Parameters")


@dataclass(frozen=True)
class Drawing:
    """A problem that has yet to be told where it comes from."""

    # Takes a name and an origin.
    make: Callable[..., Problem]
    name: str
    # Least peak in bytes, where it is known, and why that is so.
    optimum: int | None = None
    proof: str = ""


def family(draw: Callable[Parameters, Drawing]) -> Callable[Parameters, Problem]:
    """Return what makes problems of what draws them; the name and the parameters are the origin."""
    signature = inspect.signature(draw)

    @functools.wraps(draw)
    def make(*args: Parameters.args, **options: Parameters.kwargs) -> Problem:
        drawing = draw(*args, **options)
        asked = signature.bind(*args, **options)
        asked.apply_defaults()
        origin = _origin(draw.__name__, asked.arguments, drawing)
        return drawing.make(name=drawing.name, origin=origin)

    return make


def require_between(parameter: str, value: float, least: float, most: float | None = None) -> None:
    """Refuse a parameter outside its range."""
    # Written so that what is not a number is refused as well.
    if not (least <= value and (most is None or value <= most)):
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        raise InstanceError(f"parameter {parameter}: {wanted} is needed, found {value}")


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
