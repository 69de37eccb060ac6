"""Where a synthetic problem comes from, what makes it again, and its optimum where it is known."""

from __future__ import annotations

import platform

import numpy as np

from planners.errors import InstanceError
from planners.model.problem import Scalar

COMMAND = "python -m instances synthetic"

Parameter = int | float
"""What a family may be asked for."""


def provenance(
    generator: str,
    *,
    optimum: int | None = None,
    proof: str = "",
    **parameters: Parameter | None,
) -> dict[str, Scalar]:
    """Return the origin of a synthetic problem."""
    given = {key: value for key, value in parameters.items() if value is not None}
    options = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in given.items())
    origin: dict[str, Scalar] = {"generator": generator, **given}
    origin["command"] = f"{COMMAND} {generator.replace('_', '-')} {options}"
    if optimum is not None:
        origin |= {"optimum": optimum, "proof": proof}
    return origin | {"python": platform.python_version(), "numpy": np.__version__}


def require_between(parameter: str, value: float, least: float, most: float | None = None) -> None:
    """Refuse a parameter outside its range."""
    # Written so that what is not a number is refused as well.
    if not (least <= value and (most is None or value <= most)):
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        raise InstanceError(f"parameter {parameter}: {wanted} is needed, found {value}")
