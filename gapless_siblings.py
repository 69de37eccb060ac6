"""Lets a folder of the user's win over a package of ours that has the same name.

Note: two packages of one name
------------------------------
Rationale. `evaluation`, `instances` and `planners` are common names. The user's folder wins, as
everything before the installed packages does in Python; a folder without ``__init__.py`` wins, too,
if it has Python files. Our own modules find each other all the same.

Approach. ``sys.modules`` has either ours or the user's modules of a name that the user takes; the
others are kept aside. A command shows ours, and shows the user's while it runs the user's code. In
the user's own program the user's are shown. While they are, an import statement in a file of ours
shows ours for as long as it runs. Nothing is replaced in a program where no name is taken.

Limits. An import of ours that is not a statement has to go through `import_ours`. Threads that
import at the same time see what is shown to the other one.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

PACKAGES = ("planners", "instances", "gpu_runtime", "evaluation")
ROOT = Path(__file__).absolute().parent
# Holds the compiled modules of an editable installation, whose sources may have several builds.
CORES = "gapless_cores"
_OURS = tuple(f"{ROOT}/{name}/" for name in (*PACKAGES, "tests"))

_taken: set[str] = set()
_aside: dict[str, ModuleType] = {}
_shows_ours = False
_python_import = builtins.__import__


def gives_way(name: str) -> bool:
    """Put the user's folder in place of our package, which asks at its start, if it comes first."""
    package = sys.modules[name]
    if not _shows_ours:
        loaded = {each for each in PACKAGES if _is_ours(vars(sys.modules.get(each, builtins)))}
        found = _found({*PACKAGES, name} - (loaded - {name}))
        _taken.update(found)
        if found:
            _watch_imports()
        if name in found and found[name].loader is None:
            sys.modules[name] = module_from_spec(found[name])
            return True
    cores = (f"{folder}/{CORES}/{name}" for folder in sys.path)
    package.__path__.extend(filter(os.path.isdir, cores))
    return False


def import_ours(name: str) -> ModuleType:
    """Import a module of ours by its name."""
    with showing(ours=True):
        return import_module(name)


def gapless() -> None:
    """Run ``gapless``, also where a folder on PYTHONPATH has the name of a package of ours."""
    import_ours("planners.gapless").main()


@contextmanager
def showing(*, ours: bool) -> Iterator[None]:
    """Within this context Python finds our packages, or else the user's of the same names."""
    before = _shows_ours
    if _OUR_FINDER in sys.meta_path or _found(PACKAGES):
        show(ours=ours)
    try:
        yield
    finally:
        show(ours=before)


def show(*, ours: bool) -> None:
    """Let Python find our packages from here on, or else the user's of the same names."""
    global _aside, _shows_ours
    if ours == _shows_ours:
        return
    _watch_imports()
    if _shows_ours:
        _taken.update(_found(PACKAGES))
    shown = {name: sys.modules.pop(name) for name in [*sys.modules] if _top(name) in _taken}
    sys.modules.update(_aside)
    _aside, _shows_ours = shown, ours


def _found(names: Iterable[str]) -> dict[str, ModuleSpec]:
    """Return what Python finds by names of ours before it comes to our packages."""
    end = sys.path.index(str(ROOT)) if str(ROOT) in sys.path else len(sys.path)
    specs = {name: PathFinder.find_spec(name, sys.path[:end]) for name in names}
    return {
        name: spec
        for name, spec in specs.items()
        if spec is not None and not str(spec.origin).startswith(_OURS) and _has_python(spec)
    }


def _has_python(spec: ModuleSpec) -> bool:
    """Return whether a package is one of Python; a folder of data has no ``__init__.py`` either."""
    folders = map(Path, spec.submodule_search_locations or ())
    return spec.loader is not None or any(
        next(folder.glob(files), None) for folder in folders for files in ("*.py", "*/*.py")
    )


def _is_ours(names: Mapping[str, Any] | None) -> bool:
    return str((names or {}).get("__file__")).startswith(_OURS)


def _top(name: str) -> str:
    return name.partition(".")[0]


def _find_ours(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
    is_sought = _shows_ours and name in PACKAGES
    return PathFinder.find_spec(name, [str(ROOT)]) if is_sought else None


# Finds our packages while they are shown, also behind the user's of the same names.
_OUR_FINDER: Any = SimpleNamespace(find_spec=_find_ours)


def _watch_imports() -> None:
    if _OUR_FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _OUR_FINDER)
        builtins.__import__ = _import


def _import(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    if not _shows_ours and not level and _top(name) in PACKAGES:
        if _is_ours(globals):
            with showing(ours=True):
                return _python_import(name, globals, locals, fromlist)
        if _found({_top(name)} - _taken):  # the user has put a folder in front of ours since
            show(ours=True)
            show(ours=False)
    return _python_import(name, globals, locals, fromlist, level)


# `python -m gapless_siblings MODULE ARGUMENT...` runs a module of ours in any working directory.
if __name__ == "__main__":
    import runpy

    # Python has this file a second time under its name.
    import_module("gapless_siblings").show(ours=True)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
