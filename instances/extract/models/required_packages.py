"""The optional packages that models are built with."""

from __future__ import annotations

import importlib
from importlib.metadata import version

from planners.errors import MissingDependencyError

PACKAGES = ("torch", "transformers")


def require_packages() -> None:
    """Check that the packages can be imported; the message says the extra to install."""
    for package in PACKAGES:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise MissingDependencyError(
                f"extracting a model needs {package} ({error})", "torch"
            ) from None


def package_versions() -> dict[str, str]:
    """Return the versions without their local part, "+cpu", which does not change a trace."""
    return {package: version(package).split("+")[0] for package in PACKAGES}
