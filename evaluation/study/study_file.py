"""The file of a study, TOML: read here alone, and every fault one line with what would be right."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from evaluation.study.recording_part import RecordingPart
from evaluation.study.study import (
    Capacity,
    CapacityFrom,
    CatalogueChoice,
    ExtractionChoice,
    FamilyChoice,
    FileChoice,
    Grid,
    InstanceChoice,
    Plugin,
    RunLimits,
    Study,
    TrainingChoice,
    VariedChoice,
)
from instances.catalogue.catalogue_entry import KINDS
from instances.extract.parallel.streams import StreamScheme
from instances.synthetic import FAMILIES
from instances.synthetic.variations import VARIATIONS
from planners.errors import GaplessError, InstanceError, errors_at, near_names
from planners.files.bounded_file import read_bounded, require_plain_file
from planners.model.columns import INT64_MAX
from planners.model.online_result import OnlineDevice
from planners.text.byte_units import parse_bytes
from planners.text.plain_text import printable, shown

FOLDER = Path(__file__).parents[1] / "studies"
SUFFIX = ".toml"
# What ships has at most 7 KB, 370 values, 160 characters in one and 7 points in a line.
MAX_FILE_BYTES = 1 << 18
MAX_PLUGIN_BYTES = 1 << 20
MOST_VALUES = 10_000
MOST_CHARACTERS = 1000
# A key of n parts takes n * n steps to read.
MOST_POINTS = 100

# What a process may take longer than the planner's own limit, to read its problem among others.
GRACE_SECONDS = 5.0
DEFAULT_MEMORY = "4GiB"
DEFAULT_BOUNDS_SECONDS = 10.0

_OF_A_GRID = {
    "planners", "online", "fit", "seeds", "repetitions", "budget_seconds", "node_limit", "threads",
    "memory", "seconds", "device",
}  # fmt: skip
_OF_A_STUDY = _OF_A_GRID | {
    "question", "timed", "bounds_seconds", "plugins", "folders", "page", "grid",
}  # fmt: skip
# What of a grid lists who answers, by kind of run.
_NAMED = {"offsets": "planners", "online": "online", "fit": "fit"}
_OF_EVERY_CHOICE = {"capacity"}
# Those that deal nodes to streams that can be full.
_DEALT = (StreamScheme.CATEGORY.value, StreamScheme.SUCCESSION.value)
# What begins with a name in braces is in the folder of that name.
_IN_A_FOLDER = re.compile(r"\{([^{}/]*)\}/(.+)")
# What would look through a disk, or through a folder again and again.
_WALKS_TOO_FAR = re.compile(r"\*\*.*(\*\*|\.\.)|\.\..*\*\*|(?<!\.\.)/+\.\.(/|$)")
_OF_VARIANTS = {"variations", "seeds"}
_OF_A_CHOICE = {
    "files": {"files", "iteration", "persistent", "static", "microbatches"} | _OF_VARIANTS,
    "family": {"family", "parameters", "seeds"},
    "extract": {"extract", "parameters"},
    "trainings": {"trainings"},
    "names": {
        "names",
        "tags",
        "kind",
        "least_tensors",
        "most_tensors",
        "nodes_per_stream",
        "streams",
    }
    | _OF_VARIANTS,
}


def studies() -> dict[str, Path]:
    """Return the files of the studies that come with this package, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob(f"*{SUFFIX}"))}


def find_study(name_or_file: str) -> Study:
    """Read a study by its name, or from a file of its own.

    Parameters
    ----------
    name_or_file
        One of :func:`studies`, or the path of a file that ends in ``.toml``.

    Returns
    -------
    Study
        What the file asks, checked.

    Raises
    ------
    GaplessError
        No study has this name; the message has near ones.
    InstanceError
        The file is no study; the message says field, value and what would be right.
    """
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
    """Read the file of a study; its name is that of the file.

    Parameters
    ----------
    path
        TOML; its plugins stand beside it.

    Returns
    -------
    Study
        What the file asks, checked.

    Raises
    ------
    InstanceError
        The file is no study; the message says field, value and what would be right.
    """
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
        return _study(path, _Table("", content))


def _require_small(content: Mapping[str, Any]) -> None:
    """Bound what a file holds, before it is multiplied."""
    values: list[Any] = [content]
    # It grows while it is walked through.
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


def _study(path: Path, table: _Table) -> Study:
    table.require_known(_OF_A_STUDY)
    plugins = [_plugin(path.parent / name) for name in table.texts("plugins", ())]
    folders = _Table("folders, ", table.table("folders"))
    of_folders = {name: folders.text(name) for name in folders.fields}
    grids = tuple(_grid(table, grid, of_folders) for grid in table.tables("grid"))
    return Study(
        name=printable(path.stem),
        question=table.text("question"),
        grids=grids,
        timed=table.truth("timed", default=False),
        bounds_seconds=table.number("bounds_seconds", DEFAULT_BOUNDS_SECONDS) or 0.0,
        plugins=tuple(plugins),
        folders=of_folders,
        page=table.table("page"),
        path=path,
    )


def _plugin(path: Path) -> Plugin:
    with errors_at(f"field plugins, {path}"):
        try:
            require_plain_file(path)
            return Plugin(path.name, read_bounded(path, MAX_PLUGIN_BYTES).decode("utf-8"), path)
        except UnicodeDecodeError as error:
            raise InstanceError(f"the file is no UTF-8 text: byte {error.start}") from None


def _grid(study: _Table, own: _Table, folders: Mapping[str, str]) -> Grid:
    own.require_known(_OF_A_GRID | {"instances"})
    # What a grid does not say, the study says for all of them.
    table = _Table(own.where, {**study.fields, **own.fields})
    budget = table.number("budget_seconds", None)
    seconds = table.number("seconds", None if budget is None else budget + GRACE_SECONDS)
    if seconds is None:
        table.refuse("seconds", "a limit of each run, where there is no budget_seconds,", None)
    if budget is not None and seconds < budget:
        table.refuse("seconds", f"at least the budget of {budget:g}", seconds)
    named = {kind: table.texts(field, ()) for kind, field in _NAMED.items()}
    if not any(named.values()):
        table.refuse("planners", "a list of planners, or of online allocators in online,", None)
    return Grid(
        instances=tuple(
            choice for each in own.tables("instances") for choice in _choices(each, folders)
        ),
        named=named,
        seeds=table.counts("seeds", (0,)),
        repetitions=table.count("repetitions", 1, least=1) or 1,
        limits=RunLimits(
            budget_seconds=budget,
            node_limit=table.count("node_limit", None),
            threads=table.count("threads", 1, least=1) or 1,
            memory_bytes=parse_bytes(
                f"{table.where}field memory", table.text("memory", DEFAULT_MEMORY)
            ),
            seconds=seconds,
        ),
        device=_device(table),
    )


def _device(table: _Table) -> OnlineDevice:
    name = table.text("device", OnlineDevice.LEDGER.value)
    if name not in list(OnlineDevice):
        table.refuse("device", f"one of {', '.join(OnlineDevice)}", name)
    return OnlineDevice(name)


def _choices(table: _Table, folders: Mapping[str, str]) -> Iterator[InstanceChoice]:
    """Return what a table chooses: files by the folder that they are in, all else in one."""
    if "files" not in table.fields:
        yield _choice(table)
        return
    table.require_known(_OF_A_CHOICE["files"] | _OF_EVERY_CHOICE)
    capacity = _capacity(table, of_files=True)
    by_folder: dict[str | None, list[str]] = {}
    for pattern in table.texts("files"):
        found = _IN_A_FOLDER.fullmatch(pattern)
        if found is not None and found[1] not in folders:
            raise InstanceError(
                f"{table.where}field files: {shown(pattern)} is in a folder that the table folders "
                f"does not have; {near_names(found[1], folders)}"
            )
        name, within = (None, pattern) if found is None else (found[1], found[2])
        if not Path(within).parts:
            table.refuse("files", "the name of a file, or wildcards,", pattern)
        if _WALKS_TOO_FAR.search(within):
            raise InstanceError(
                f"{table.where}field files: ** is needed at most once, and .. at the begin alone "
                f"and without **, found {shown(pattern)}"
            )
        by_folder.setdefault(name, []).append(within)
    parts = _parts(table)
    for name, patterns in by_folder.items():
        yield _varied(table, FileChoice(tuple(patterns), name, parts, capacity))


def _parts(table: _Table) -> tuple[RecordingPart, ...]:
    """Return what of each file is a problem: one for each number of microbatches."""
    iteration = table.text("iteration", "all")
    persistent = table.truth("persistent", default=True)
    static = table.truth("static", default=False)
    numbers = table.counts("microbatches", (1,))
    with errors_at(table.where.rstrip(", ")):
        return tuple(RecordingPart(iteration, persistent, static, number) for number in numbers)


def _choice(table: _Table) -> InstanceChoice:
    kind = next((kind for kind in _OF_A_CHOICE if kind in table.fields), "names")
    table.require_known(_OF_A_CHOICE[kind] | _OF_EVERY_CHOICE)
    capacity = _capacity(table)
    if kind == "family":
        family = table.text("family").replace("-", "_")
        if family not in FAMILIES:
            raise InstanceError(
                f"{table.where}field family: no family is called {shown(family)}; "
                f"{near_names(family, FAMILIES)}"
            )
        return FamilyChoice(family, _parameters(table), table.counts("seeds", (0,)), capacity)
    if kind == "trainings":
        return TrainingChoice(table.texts("trainings"))
    if kind == "extract":
        if not table.text("extract").strip():
            table.refuse("extract", "a model with its options", table.text("extract"))
        given = _Table(f"{table.where}parameters, ", table.table("parameters"))
        parameters = {name: given.options(name) for name in given.fields}
        return ExtractionChoice(table.text("extract"), parameters, capacity)
    streams = table.text("streams", StreamScheme.CATEGORY.value)
    if streams not in _DEALT:
        table.refuse("streams", f"one of {', '.join(_DEALT)}", streams)
    if "streams" in table.fields and "nodes_per_stream" not in table.fields:
        table.refuse("nodes_per_stream", "a list of numbers, where streams is given,", None)
    of_kind = table.text("kind", "") or None
    if of_kind is not None and of_kind not in KINDS:
        table.refuse("kind", f"one of {', '.join(KINDS)}", of_kind)
    chosen = CatalogueChoice(
        names=table.texts("names", ("*",)),
        tags=table.texts("tags", ()),
        kind=of_kind,
        least_tensors=table.count("least_tensors", 0) or 0,
        most_tensors=table.count("most_tensors", None),
        capacity=capacity,
        nodes_per_stream=table.counts("nodes_per_stream", ()),
        streams=StreamScheme(streams),
    )
    return _varied(table, chosen)


def _capacity(table: _Table, *, of_files: bool = False) -> Capacity:
    value = table.fields.get("capacity", True)
    if of_files and value == CapacityFrom.NAME.value:
        return CapacityFrom.NAME
    if type(value) is bool:
        return CapacityFrom.INSTANCE if value else None
    if not _is_count(value):
        named = f'"{CapacityFrom.NAME.value}", ' if of_files else ""
        table.refuse("capacity", f"a whole number of bytes, {named}true or false", value)
    return int(value)


def _varied(
    table: _Table, choice: CatalogueChoice | FileChoice
) -> CatalogueChoice | FileChoice | VariedChoice:
    variations = table.texts("variations", ())
    if not variations:
        if "seeds" in table.fields:
            table.refuse("variations", "a list of texts, for the seeds that are given,", None)
        return choice
    for name in variations:
        if name not in VARIATIONS:
            raise InstanceError(
                f"{table.where}field variations: none is called {shown(name)}; "
                f"{near_names(name, VARIATIONS)}"
            )
    return VariedChoice(choice, variations, table.counts("seeds", (0,)))


def _parameters(table: _Table) -> dict[str, tuple[int | float, ...]]:
    parameters = _Table(f"{table.where}parameters, ", table.table("parameters"))
    return {name: parameters.values(name) for name in parameters.fields}


class _Table:
    """A table of the file, whose fields are asked for by their type."""

    def __init__(self, where: str, fields: Mapping[str, Any]) -> None:
        self.where, self.fields = where, fields

    def require_known(self, known: set[str]) -> None:
        for field in self.fields:
            if field not in known:
                raise InstanceError(
                    f"{self.where}field {shown(field)}: unknown; {near_names(field, known)}"
                )

    def text(self, field: str, default: str | None = None) -> str:
        value = self.fields.get(field, default)
        if type(value) is not str:
            self.refuse(field, "a text", value)
        return value

    def texts(self, field: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        return tuple(self._list(field, default, lambda value: type(value) is str, "texts"))

    def counts(self, field: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self._list(field, default, _is_count, "whole numbers of at least 0"))

    def options(self, field: str) -> tuple[int | float | str, ...]:
        value = self.fields[field]
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(type(each) in (int, float, str) for each in listed):
            self.refuse(field, "a number, a text, or a list of them", value)
        return tuple(listed)

    def values(self, field: str) -> tuple[int | float, ...]:
        value = self.fields[field]
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(type(each) in (int, float) for each in listed):
            self.refuse(field, "a number or a list of numbers", value)
        return tuple(listed)

    def count(self, field: str, default: int | None, *, least: int = 0) -> int | None:
        value: int | None = self.fields.get(field, default)
        if value is not default and (not _is_count(value) or (value or 0) < least):
            self.refuse(field, f"a whole number of at least {least}", value)
        return value

    def number(self, field: str, default: float | None) -> float | None:
        value = self.fields.get(field, default)
        if value is not default and not (type(value) in (int, float) and 0 <= value < float("inf")):
            self.refuse(field, "a number of at least 0", value)
        return None if value is None else float(value)

    def truth(self, field: str, *, default: bool) -> bool:
        value = self.fields.get(field, default)
        if type(value) is not bool:
            self.refuse(field, "true or false", value)
        return value

    def table(self, field: str) -> Mapping[str, Any]:
        value = self.fields.get(field, {})
        if not isinstance(value, dict):
            self.refuse(field, "a table", value)
        return value

    def tables(self, field: str) -> list[_Table]:
        found = self._list(field, None, lambda value: isinstance(value, dict), "tables")
        name = field if field == "grid" else f"{self.where}{field}"
        return [_Table(f"{name} {index + 1}, ", each) for index, each in enumerate(found)]

    def refuse(self, field: str, needed: str, found: object) -> NoReturn:
        found_there = "nothing" if found is None else shown(found)
        raise InstanceError(f"{self.where}field {field}: {needed} is needed, found {found_there}")

    def _list(self, field: str, default: Any, is_right: Any, what: str) -> Any:
        values = self.fields.get(field, default)
        if values is default and default is not None:
            return values
        if not isinstance(values, list) or not values or not all(map(is_right, values)):
            self.refuse(field, f"a list of {what}", values)
        return values


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= INT64_MAX
