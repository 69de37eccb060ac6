"""What a failed import lacks: the C++ core, which is not built in these sources, or a package."""

from __future__ import annotations

import contextlib
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import NoReturn

from gapless_siblings import ROOT
from planners.errors import MissingDependencyError, install_command


def refuse(error: ImportError) -> NoReturn:
    """Raise the error; where ``python -m`` is about to run a program of ours, end with its line."""
    if getattr(sys, "argv", [])[:1] == ["-m"]:  # Python imports the packages that the program is in
        print(f"error: {missing_core(error)}", file=sys.stderr, flush=True)
        sys.exit(2)
    raise missing_core(error)


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


def broken_import(error: ImportError) -> str:
    """Return the line for a failed import: the missing package, and the command to install it."""
    if error.name == "planners._core":
        return str(missing_core(error))
    missing = (error.name or "").partition(".")[0]
    with contextlib.suppress(PackageNotFoundError):
        for requirement in requires("gapless") or []:
            package = re.match(r"[\w.-]+", requirement)
            if package and package[0] == missing:
                extra = re.search(r"extra == ['\"]([\w-]+)", requirement)
                return f"{error}; install with: {install_command(extra[1] if extra else '')}"
    return str(error)
