"""The model that a name means: a registered one, or the file of its configuration."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from instances.extract.models.configured_model import configured_model, is_configuration
from instances.extract.models.model_registry import MODELS, Model
from instances.extract.own.own_function import is_own
from planners.errors import InstanceError


def find_model(name: str) -> Model:
    if is_own(name):
        raise InstanceError(
            f"{name}: the name of a model is needed, found a function of a file; register a model "
            f"in the file and give it by --models"
        )
    return configured_model(Path(name)) if is_configuration(name) else MODELS.find(name)


def files_of(name: str, models: Iterable[Path] | None) -> list[Path]:
    """Return the files that a command is about to read."""
    own = [Path(name.rpartition(":")[0])] if is_own(name) else []
    given = [Path(name)] if is_configuration(name) else own
    return [*given, *(models or ())]
