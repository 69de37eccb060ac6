"""Registry of the models that can be extracted, built with random weights and no download."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instances.extract.own.own_function import run_user_file
from instances.extract.step_settings import INFERENCE, TRAINING_SETTINGS, StepSettings
from planners.errors import InstanceError
from planners.registry import Registry

if TYPE_CHECKING:
    from torch.nn import Module


Build = Callable[[StepSettings], "tuple[Module, dict[str, Any]]"]

# A model has one of these settings if its defaults give it a value.
OPTIONAL_SETTINGS = ("seq", "image", "layers")


@dataclass(frozen=True)
class Model:
    """A model that can be extracted."""

    name: str
    # Expression that builds it, for the provenance of an instance.
    source: str
    # Returns the module, and a batch: keyword arguments with which the module returns an object
    # that has a ``loss``, or for inference its outputs. One tensor under two names, such as labels
    # that are the tokens, is one tensor on the GPU.
    build: Build
    # If ``seq``, ``image`` or ``layers`` is None, the model does not have that setting.
    defaults: StepSettings
    # Names of the module lists whose layers activation checkpointing recomputes; empty if the
    # model does not support it.
    recomputed: tuple[str, ...] = ()

    def settings(self, **changes: Any) -> StepSettings:
        """Return the model's defaults with some settings changed, all supported by this model."""
        settings = replace(self.defaults, **_for_mode(changes))
        if not settings.training:
            for name in TRAINING_SETTINGS:
                if name in changes:
                    raise InstanceError(
                        f"setting {name}: an inference graph has no use for it; leave it out"
                    )
        self.require_supported(settings)
        return settings

    def require_supported(self, settings: StepSettings) -> None:
        """Check that every setting is one that this model has."""
        for name in OPTIONAL_SETTINGS:
            value, default = getattr(settings, name), getattr(self.defaults, name)
            if (value is None) != (default is None):
                has = "does not have it" if default is None else f"needs it ({default} by default)"
                raise InstanceError(f"setting {name}: {self.name} {has}, found {value}")
        if settings.checkpointing and not self.recomputed:
            raise InstanceError(
                f"setting checkpointing: {self.name} has no layers that can be recomputed; "
                f"leave it out"
            )


MODELS: Registry[Model] = Registry("model", InstanceError)


def register(
    name: str,
    source: str,
    defaults: StepSettings | None = None,
    recomputed: tuple[str, ...] = (),
) -> Callable[[Build], Model]:
    """Register the function below as the builder of a model."""

    def add(build: Build) -> Model:
        model = Model(name, source, build, defaults or StepSettings(), recomputed)
        return MODELS.add(name, model)

    return add


def _for_mode(changes: dict[str, Any]) -> dict[str, Any]:
    # Inference never recomputes.
    return {"checkpointing": False, **changes} if changes.get("mode") == INFERENCE else changes


Models = Annotated[
    list[Path] | None,
    typer.Option(
        "--models", metavar="FILE.py", help="Register the models of a Python file as well."
    ),
]


def register_own_models(paths: Iterable[Path]) -> None:
    """Run files that register models; a file that fails leaves no model behind."""
    for path in paths:
        before = len(MODELS)
        with MODELS.unchanged_on_error():
            run_user_file(path)
            if len(MODELS) == before:
                raise InstanceError(
                    f"{path}: it registers no model; decorate a function that builds one with "
                    f"@register of instances.extract.models"
                )
