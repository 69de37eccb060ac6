"""The package that a solver comes in, and what to do where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from planners.errors import MissingDependencyError


def require_package(module: str, package: str, command: str) -> None:
    """Raise ``MissingDependencyError`` if a package is missing, without the cost of its import."""
    try:
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None:
        raise MissingDependencyError(f"{package} is not installed; install it with: {command}")
