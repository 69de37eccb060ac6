"""Reads the TOML file of a study; each fault is one line that says what would be right."""

from __future__ import annotations

import enum
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from evaluation.study.record import AnyRecord
from evaluation.study.study import (
    FileChoice,
    Grid,
    GridSettings,
    InstanceChoice,
    Plugin,
    Study,
    StudyFile,
)
from evaluation.study.typed_values import typed
from planners.errors import GaplessError, InstanceError, errors_at, near_names
from planners.files.bounded_file import read_bounded, require_plain_file
from planners.model.columns import INT64_MAX
from planners.text.plain_text import printable, shown

FOLDER = Path(__file__).parents[1] / "studies"
SUFFIX = ".toml"
# Limits of a study's file. The studies of this package have at most 22 KB, 1,100 values, 1,800
# characters in a value, which is a query, and 7 points in a line.
MAX_FILE_BYTES = 1 << 18
MAX_PLUGIN_BYTES = 1 << 20
MOST_VALUES = 10_000
MOST_CHARACTERS = 4000
# A key of n parts takes n * n steps to read.
MOST_POINTS = 100
# The key that says which kind a choice of instances is of.
CHOICES = [choice.__struct_config__.tag for choice in get_args(InstanceChoice)]


def studies() -> dict[str, Path]:
    """Return the files of the studies that come with this package, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob(f"*{SUFFIX}"))}


def find_study(name_or_file: str) -> Study:
    """Read a study by its name, one of :func:`studies`, or from a file that ends in ``.toml``."""
    if name_or_file.endswith(SUFFIX):
        return read_study(Path(name_or_file))
    known = studies()
    if name_or_file not in known:
        raise GaplessError(
            f"study {shown(name_or_file)}: none has this name; {near_names(name_or_file, known)} "
            f"(a file of your own ends in {SUFFIX})"
        )
    return read_study(known[name_or_file])


def read_study(path: Path) -> Study:
    """Read the TOML of a study, which has the name of its file; its plugins stand beside it."""
    with errors_at(path):
        try:
            require_plain_file(path)
            text = read_bounded(path, MAX_FILE_BYTES).decode("utf-8")
            for number, line in enumerate(text.split("\n"), 1):
                if line.count(".") > MOST_POINTS:
                    raise InstanceError(
                        f"line {number}: at most {MOST_POINTS} points are needed, found "
                        f"{line.count('.')}; a list may have several lines"
                    )
            content = tomllib.loads(text)
        except RecursionError:
            raise InstanceError("the file is no study: its lists are nested too deeply") from None
        except ValueError as error:  # no UTF-8, or no TOML
            raise InstanceError(f"the file is no TOML: {error}") from None
        _require_small(content)
        return _study(path, content)


def _require_small(content: Mapping[str, Any]) -> None:
    """Bound the content of a file before its grids multiply it."""
    values: list[Any] = [content]
    # The list grows while the loop walks through it.
    for value in values:
        if isinstance(value, Mapping):
            values += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str) and len(value) > MOST_CHARACTERS:
            raise InstanceError(
                f"a text of at most {MOST_CHARACTERS} characters is needed, found {shown(value)}"
            )
        elif isinstance(value, int) and abs(value) > INT64_MAX:
            raise InstanceError(f"a whole number within int64 is needed, found {shown(value)}")
        if len(values) > MOST_VALUES:
            raise InstanceError(f"at most {MOST_VALUES} keys and values are needed, found more")


def _study(path: Path, content: dict[str, Any]) -> Study:
    _hand_down(content)
    its: StudyFile = typed(content, StudyFile)
    for number, grid in enumerate(its.grids, 1):
        _require_folders(f"grid {number}", grid, its.folders)
    return Study(
        **msgspec.structs.asdict(its),
        name=printable(path.stem),
        path=path,
        plugins=tuple(_plugin(path.parent / name) for name in its.plugin_files),
    )


def _hand_down(content: dict[str, Any]) -> None:
    """Copy the study's settings into each grid, and name the kind of each choice."""
    of_all = {key: content[key] for key in GridSettings.__struct_fields__ if key in content}
    grids = content.get("grid")
    for grid in grids if isinstance(grids, list) else ():
        if not isinstance(grid, dict):
            continue
        grid.update({key: value for key, value in of_all.items() if key not in grid})
        choices = grid.get("instances")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                choice.setdefault(
                    "choice", next((key for key in CHOICES if key in choice), "names")
                )


def _require_folders(where: str, grid: Grid, known: Mapping[str, str]) -> None:
    for number, choice in enumerate(grid.instances, 1):
        for folder, pattern in choice.patterns if isinstance(choice, FileChoice) else ():
            if folder is not None and folder not in known:
                raise InstanceError(
                    f"{where}, instances {number}, field files: {shown(f'{{{folder}}}/{pattern}')} "
                    f"is in a folder that the table folders does not have; "
                    f"{near_names(folder, known)}"
                )


def _plugin(path: Path) -> Plugin:
    with errors_at(f"field plugins, {path}"):
        try:
            require_plain_file(path)
            return Plugin(path.name, read_bounded(path, MAX_PLUGIN_BYTES).decode("utf-8"), path)
        except UnicodeDecodeError as error:
            raise InstanceError(f"the file is not UTF-8 text: byte {error.start}") from None


class Typed(enum.StrEnum):
    """A format that has a schema."""

    RECORD = "record"
    STUDY = "study"


def schema_of(what: Typed) -> dict[str, Any]:
    """Return the JSON schema of a record, or of a study's file, which is TOML."""
    schema = msgspec.json.schema(AnyRecord if what is Typed.RECORD else StudyFile)
    for its in schema["$defs"].values():
        # A file does not name the kind of a choice: its other keys tell the kind. The instances of
        # a grid may be those of its study.
        if "required" in its:
            its["required"] = [key for key in its["required"] if key not in ("choice", "instances")]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
