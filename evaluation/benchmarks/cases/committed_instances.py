"""The committed instances, from which pages are made where no files are named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from instances.catalogue.catalogue_file import FOLDER
from instances.catalogue.update import instance_files
from planners.errors import GaplessError


def committed_instances(names: Sequence[str] | None = None, folder: Path = FOLDER) -> list[Path]:
    """Return the files of the committed instances of these names, or of all, sorted."""
    found = instance_files(folder)
    if not found:
        raise GaplessError(f"{folder}: instances (*.json, *.json.gz) are needed, found none")
    for name in names or ():
        if name not in found:
            raise GaplessError(f"{folder}: an instance {name} is needed, found none of that name")
    return [found[name] for name in names or sorted(found)]
