"""Extract a model by name: look it up, trace it, build the problem."""

from __future__ import annotations

import importlib
from importlib.metadata import version

from instances.extract.models import MODELS, Model
from instances.extract.settings import StepSettings
from instances.extract.step_problem import build_problem
from planners import Problem
from planners.errors import InstanceError, MissingDependencyError, near_names


def extract(name: str, settings: StepSettings) -> Problem:
    """Extract the training step of a registered model.

    Parameters
    ----------
    name
        Name of the model, ``"bert-base"``.
    settings
        Batch, optimizer, streams, buckets.

    Returns
    -------
    Problem
        The same for the same settings and versions.

    Raises
    ------
    InstanceError
        The model or the optimizer is unknown, or a setting does not suit the model.
    MissingDependencyError
        PyTorch or transformers is not installed.
    """
    if name not in MODELS:
        raise InstanceError(f"no model is called {name!r}; {near_names(name, MODELS)}")
    require_packages("torch", "transformers")
    from instances.extract.optimizers import OPTIMIZERS
    from instances.extract.training_step import trace_training_step

    if settings.optimizer not in OPTIMIZERS:
        raise InstanceError(
            f"no optimizer is called {settings.optimizer!r}; "
            f"{near_names(settings.optimizer, OPTIMIZERS)}"
        )
    model = MODELS[name]
    trace = trace_training_step(
        lambda: model.build(settings), OPTIMIZERS[settings.optimizer](), settings.clip_norm
    )
    origin = _describe(model, settings)
    origin["persistent_bytes"] = sum(trace.size[storage] for storage in trace.persistent)
    return build_problem(trace, settings, name, origin)


def require_packages(*packages: str) -> None:
    """Check that optional packages can be imported.

    Parameters
    ----------
    packages
        Names.

    Raises
    ------
    MissingDependencyError
        One cannot; the message says the extra to install.
    """
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise MissingDependencyError(
                f"extracting a model needs {package} ({error}): pip install -e '.[torch]'"
            ) from None


def _describe(model: Model, settings: StepSettings) -> dict[str, str | int | float]:
    return {
        "model": model.source,
        "step": "forward, loss, backward, all-reduce, optimizer; float32",
        "batch": settings.batch,
        "seq": settings.seq,
        "optimizer": settings.optimizer,
        "clip_norm": settings.clip_norm,
        "nodes_per_stream": settings.nodes_per_stream,
        "bucket_mb": settings.bucket_mb,
        "command": f"python -m instances.extract {model.name} {settings.command_line}",
        # Without the local part of a version, "+cpu": it does not change what is traced.
        **{package: version(package).split("+")[0] for package in ("torch", "transformers")},
    }
