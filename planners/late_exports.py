"""The names that a package exports, each imported at its first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless_siblings import import_ours


def late_exports(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose modules take long to import.

    ``homes`` has the module below the package that defines each exported name.
    """

    def exported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_ours(f"{package}.{homes[name]}"), name)

    return exported
