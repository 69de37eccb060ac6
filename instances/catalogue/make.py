"""Make an instance again by its recorded command, and compare its digest with the recorded one."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from errno import ENOENT
from pathlib import Path
from tempfile import TemporaryDirectory

from instances.catalogue.catalogue_entry import CatalogueEntry
from planners.errors import GaplessError, InstanceError
from planners.files.problem_file import problem_digest, read_gapless_json
from planners.processes.child_process import run_to_end
from planners.version import version_of

# Every command begins so, which lets a catalogue run only generators of this package.
PROGRAM = ("python", "-m")
PACKAGE = "instances"


def module_and_arguments(entry: CatalogueEntry) -> tuple[str, list[str]]:
    """Return the module that makes an instance, and its arguments without the file to write."""
    if not entry.command:
        how = f"get it from {entry.source}" if entry.source else "it is kept as a file"
        raise InstanceError(f"instance {entry.name}: no command is recorded; {how}")
    try:
        words = shlex.split(entry.command)
    except ValueError as error:
        raise InstanceError(f"instance {entry.name}, field command: {error}") from None
    if tuple(words[:2]) != PROGRAM or len(words) < 3 or words[2].split(".")[0] != PACKAGE:
        raise InstanceError(
            f"instance {entry.name}, field command: `python -m {PACKAGE}...` is needed, found "
            f"{entry.command!r:.60}"
        )
    return words[2], words[3:]


def make_folder(folder: Path) -> None:
    """Make the folder for instances that a name finds."""
    try:
        if not folder.is_absolute():
            raise OSError(ENOENT, "nobody knows the home of this user")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GaplessError(
            f"{folder}: the folder cannot be made: {error.strerror}; name another with -o DIR"
        ) from None


def make(entry: CatalogueEntry, folder: Path, *, keeps_others: bool = True) -> Path:
    """Make an instance by its recorded command.

    Only an instance of the recorded digest replaces a file that is there. Another instance is kept
    only if `keeps_others` is set and there is no file yet.
    """
    module, arguments = module_and_arguments(entry)
    if not folder.is_dir():
        raise InstanceError(f"{folder}: the folder does not exist")
    path = folder / entry.file
    if not os.access(folder, os.W_OK):
        raise InstanceError(f"{folder}: the folder cannot be written to; name another with -o DIR")
    with TemporaryDirectory(prefix=".gapless-", dir=folder) as beside:
        made = Path(beside) / entry.file
        program = (sys.executable, "-m", "gapless_siblings", module)
        _run([*program, *arguments, "-o", str(made)], entry.name)
        found = problem_digest(read_gapless_json(made))
        is_recorded = found == entry.facts.digest
        stays = path.exists() and not is_recorded
        if is_recorded or (keeps_others and not stays):
            made.replace(path)
    if not is_recorded:
        raise GaplessError(
            f"{path}: another instance than the recorded one, digest {found}, not "
            f"{entry.facts.digest}; that was made with {entry.made_with or 'unknown versions'}, "
            f"this with {_versions_here(entry)}{'; the file that is there stays' if stays else ''}"
            f"{'' if stays or keeps_others else '; -o DIR keeps it'}"
        )
    return path


def _run(command: Sequence[str], name: str) -> None:
    done = run_to_end(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it says nothing"]
        raise GaplessError(
            f"instance {name}: its command ends with {done.returncode}: "
            f"{lines[-1].removeprefix('error: ')}"
        )


def _versions_here(entry: CatalogueEntry) -> str:
    """Return the versions here of those packages that made the recorded instance."""
    found = []
    for part in filter(None, entry.made_with.split(", ")):
        package = part.partition(" ")[0]
        here = platform.python_version() if package == "python" else version_of(package)
        found.append(f"{package} {here or 'not installed'}")
    return ", ".join(found) or f"gapless {version_of('gapless')}"
