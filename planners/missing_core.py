"""The error of an import from sources whose C++ core is not built."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from planners.errors import MissingDependencyError
from planners.siblings import ROOT


def missing_core(error: ImportError) -> MissingDependencyError:
    """Return the error, with the Gapless that is installed elsewhere, if one is."""
    said = f"the C++ core of Gapless is not built in {ROOT} ({error})"
    build = f"build it with: pip install -e {ROOT}"
    try:
        installed = Path(str(distribution("gapless").locate_file("")))
    except PackageNotFoundError:
        return MissingDependencyError(f"{said}; {build}")
    if installed.resolve() == ROOT or not (installed / "planners" / "__init__.py").is_file():
        return MissingDependencyError(f"{said}; {build}")
    return MissingDependencyError(
        f"{said}, and Python finds these sources before the Gapless installed in {installed}; to "
        f"use the installed one, run from another folder, or run `gapless COMMAND`; or {build}"
    )
