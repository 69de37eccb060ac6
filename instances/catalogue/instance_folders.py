"""The folders of instance files, and the file of each instance."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.catalogue_file import CATALOGUE, FOLDER, read_catalogue
from planners.errors import InstanceError
from planners.files.formats import read_problem
from planners.files.problem_file import SUFFIXES, problem_digest
from planners.model.problem import Problem

# Likeness of names from which the error suggests one, 0 to 1; a guess.
LIKENESS = 0.75


def users_folder() -> Path:
    """Return the folder for made instances, below the user's data folder by XDG."""
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The specification ignores a path that is not absolute.
    if not data.is_absolute():
        data = Path(os.path.expanduser("~")) / ".local" / "share"
    return data / "gapless" / "instances"


def is_checkout() -> bool:
    """Return True if the catalogue lies in a checkout and not in an installed package."""
    return (FOLDER.parent / "pyproject.toml").is_file()


def folders_of(catalogue: Path) -> list[Path]:
    """Return the folders of a catalogue's instances; the last one gets those that are made."""
    return [FOLDER, users_folder()] if catalogue == CATALOGUE else [catalogue.parent]


def place_of(entry: CatalogueEntry, folders: list[Path]) -> Path | None:
    """Return the file of an entry; None if no folder has it."""
    places = (folder / entry.file for folder in folders)
    return next((path for path in places if os.path.isfile(path)), None)


def file_of(entry: CatalogueEntry) -> Path:
    """Return the file of an instance of the catalogue; an error says how to get it."""
    return require_file(entry, folders_of(CATALOGUE))


def require_file(entry: CatalogueEntry, folders: list[Path]) -> Path:
    """Return the file of an entry in one of the folders; an error says how to get it."""
    path = place_of(entry, folders)
    if path is None:
        where = " or ".join(map(str, folders))
        how = (
            f"get it from {entry.source}"
            if entry.source
            else f"`python -m instances make {entry.name}` makes it, and a checkout has the "
            f"committed ones"
        )
        raise InstanceError(
            f"instance {entry.name}: {entry.file} is needed in {where}, found none; {how}"
        )
    return path


def read_recorded(entry: CatalogueEntry, folders: list[Path]) -> Problem:
    """Read the file of an entry in any format, and make sure that it has the recorded digest."""
    path = require_file(entry, folders)
    problem = read_problem(path).with_name(entry.name)
    found = problem_digest(problem)
    if found != entry.facts.digest:
        raise InstanceError(
            f"{path}: the recorded instance {entry.name} has the digest {entry.facts.digest}, "
            f"found {found}"
        )
    return problem


def find_named(name: str) -> Path | None:
    """Return the file of the instance of a name; None if no instance has a similar name."""
    entries = read_catalogue()
    if name in entries:
        return file_of(entries[name])
    near = get_close_matches(file_label(Path(name.lower())), entries, n=1, cutoff=LIKENESS)
    if near:
        raise InstanceError(
            f"{name}: no such file; did you mean the instance {near[0]!r} of the catalogue?"
        )
    return None


def name_of_file(path: Path) -> str | None:
    """Return the name of the instance in a file; None if the suffix is of no instance."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return None


def file_label(path: Path) -> str:
    """Return the name of the instance in a file, or else the name of the file."""
    return name_of_file(path) or path.name


def named_after(problem: Problem, path: Path) -> Problem:
    """Return a problem under the name of the file that it is written to."""
    printable = (char if char.isprintable() else "?" for char in file_label(path))
    return problem.with_name("".join(printable))
