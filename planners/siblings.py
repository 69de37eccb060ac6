"""Whose package a name of ours is: a folder of the user's may have the same, and be found first.

The other packages run this file by its path, before they import anything of ``planners``, for that
name may be the user's as well.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).absolute().parents[1]


def require_ours(*names: str) -> None:
    """Raise ``ImportError`` where an import of a package of ours finds one of somebody else's."""
    for name in names:
        found = _place_of(name)
        if found is None or _is_same(Path(found, "__init__.py"), ROOT / name / "__init__.py"):
            continue
        refuse(
            ImportError(
                f"Gapless needs its package {name!r} ({ROOT / name}), and Python finds another of "
                f"this name: {found}; rename that one, run from another folder, or put its folder "
                f"behind {ROOT} on sys.path"
            )
        )


def refuse(error: ImportError) -> NoReturn:
    """Raise an error; where ``python -m`` is about to run a program of ours, end with its line."""
    if getattr(sys, "argv", [])[:1] == ["-m"]:  # Python imports the packages that the program is in
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
    raise error


def _is_same(found: Path, ours: Path) -> bool:
    try:
        return found.samefile(ours)
    except OSError:
        return False


def _place_of(name: str) -> str | None:
    """Return the folder of a package or the file of a module; None where there is neither."""
    try:
        spec = find_spec(name)
    except ValueError:  # a module that was made by hand
        return f"sys.modules[{name!r}]"
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    if spec.origin is None or not spec.has_location:
        return folders[0] if folders else str(spec.origin)
    return str(Path(spec.origin).parent) if folders else spec.origin
