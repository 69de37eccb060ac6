"""The package that a solver comes in, and what to do where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from planners.errors import MissingDependencyError


def require_package(module: str, package: str, command: str) -> None:
    """Raise where a package is missing, without the time that its import takes."""
    try:
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None:
        raise MissingDependencyError(f"{package} is not installed; install it with: {command}")
