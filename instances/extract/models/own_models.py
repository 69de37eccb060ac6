"""Models that a user's file registers, beside those that are here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from instances.extract.models.model_registry import MODELS
from instances.extract.own.own_function import run_user_file
from planners.errors import InstanceError

Models = Annotated[
    list[Path] | None,
    typer.Option(
        "--models", metavar="FILE.py", help="Register the models of a Python file as well."
    ),
]


def register_own_models(paths: Iterable[Path]) -> None:
    """Run files that register models; what a file that fails has registered is taken back."""
    for path in paths:
        before = len(MODELS)
        with MODELS.unchanged_on_error():
            run_user_file(path)
            if len(MODELS) == before:
                raise InstanceError(
                    f"{path}: it registers no model; decorate a function that builds one with "
                    f"@register of instances.extract.models"
                )
