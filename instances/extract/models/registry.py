"""Registry of the models that can be extracted, built with random weights and no download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instances.extract.settings import StepSettings

# Names are looked up, and the command line explains itself, where torch is not installed.
if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Build = Callable[[StepSettings], "tuple[Module, dict[str, Tensor]]"]


@dataclass(frozen=True)
class Model:
    """A model that can be extracted.

    Parameters
    ----------
    name
        What the command line calls it.
    source
        Expression that builds it, for the provenance of an instance.
    build
        Returns the module in training mode, and a batch: keyword arguments with which the
        module returns an object that has a ``loss``.
    """

    name: str
    source: str
    build: Build


MODELS: dict[str, Model] = {}


def register(name: str, source: str) -> Callable[[Build], Model]:
    """Register the function below as the builder of a model.

    Parameters
    ----------
    name, source
        As in :class:`Model`.

    Returns
    -------
    Callable
        Decorator that turns the builder into a :class:`Model`.

    Raises
    ------
    ValueError
        The name is taken.
    """

    def add(build: Build) -> Model:
        if name in MODELS:
            raise ValueError(f"model {name!r} is registered already")
        MODELS[name] = Model(name, source, build)
        return MODELS[name]

    return add
