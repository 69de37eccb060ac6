"""A study: which planners run on which instances, under which limits; typed as its file has it."""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from evaluation.study.recording_part import RecordingPart
from evaluation.study.training_grid import TrainingGrid
from instances.catalogue.catalogue_entry import Kind as InstanceKind
from instances.synthetic import FAMILIES
from instances.synthetic.variations import VARIATIONS
from planners.errors import GaplessError, near_names
from planners.model.columns import INT64_MAX
from planners.model.online_result import OnlineDevice
from planners.text.byte_units import parse_bytes
from planners.text.plain_text import shown

# Seconds that a process may take beyond the planner's limit, such as to read its problem. A guess.
GRACE_SECONDS = 5.0

Count = Annotated[int, Meta(ge=0, le=INT64_MAX, description="a whole number of at least 0")]
OneOrMore = Annotated[int, Meta(ge=1, le=INT64_MAX, description="a whole number of at least 1")]
Seconds = Annotated[float, Meta(ge=0, le=sys.float_info.max, description="a number of at least 0")]
Texts = Annotated[tuple[str, ...], Meta(min_length=1, description="a list of texts")]
Counts = Annotated[
    tuple[Count, ...], Meta(min_length=1, description="a list of whole numbers of at least 0")
]
Number = int | float
Numbers = Annotated[
    Number | Annotated[tuple[Number, ...], Meta(min_length=1)],
    Meta(description="a number or a list of numbers"),
]
Options = Annotated[
    Number | str | Annotated[tuple[Number | str, ...], Meta(min_length=1)],
    Meta(description="a number, a text, or a list of them"),
]

# A pattern that begins with a name in braces is relative to the folder of that name.
_IN_A_FOLDER = re.compile(r"\{([^{}/]*)\}/(.+)")
# Patterns that would walk a whole disk, or the same folder many times.
_WALKS_TOO_FAR = re.compile(r"\*\*.*(\*\*|\.\.)|\.\..*\*\*|(?<!\.\.)/+\.\.(/|$)|^/+\*\*")


class CapacityFrom(enum.Enum):
    """The place that gives the capacity of an instance."""

    INSTANCE = "instance"
    # The last part of the name of its file, as in ``A.1048576.csv``.
    NAME = "name"


# Bytes that a plan has to fit, or the place that gives them; None asks for the smallest peak.
Capacity = int | CapacityFrom | None


class _Choice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="choice"):
    """Instances of a grid; the keys of its table tell the kind of choice."""


class _Given(_Choice, frozen=True, kw_only=True):
    capacity: Annotated[
        bool | Count | Literal["name"],
        Meta(description='a whole number of bytes, "name", true or false'),
    ] = True

    def __post_init__(self) -> None:
        if self.capacity == "name" and not isinstance(self, FileChoice):
            raise ValueError(
                "field capacity: a whole number of bytes, true or false is needed, found 'name'"
            )

    @property
    def asked_capacity(self) -> Capacity:
        """The capacity that a plan has to fit."""
        if isinstance(self.capacity, bool):
            return CapacityFrom.INSTANCE if self.capacity else None
        return CapacityFrom.NAME if self.capacity == "name" else self.capacity


class _MayVary(_Given, frozen=True, kw_only=True):
    """Instances that variants may replace: each variation with each seed, or once if not random."""

    variations: Texts = ()
    seeds: Counts = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.variations and self.seeds:
            raise ValueError(
                "field variations: a list of texts, for the seeds that are given, is needed, "
                "found nothing"
            )
        for name in self.variations:
            if name not in VARIATIONS:
                raise ValueError(
                    f"field variations: none is called {shown(name)}; "
                    f"{near_names(name, VARIATIONS)}"
                )


class CatalogueChoice(_MayVary, frozen=True, kw_only=True, tag="names"):
    """All instances of the catalogue that meet every condition."""

    # Names or wildcards; an instance has to match one of them.
    names: Texts = ("*",)
    # Tags that an instance must all have.
    tags: Texts = ()
    kind: InstanceKind | None = None
    least_tensors: Count = 0
    most_tensors: Count | None = None
    # For each number, the nodes of a graph are dealt again to streams of at most so many nodes;
    # chains are left out. If it is empty, streams stay as they are.
    nodes_per_stream: Counts = ()
    # A new stream waits for the full one that it follows: for its data alone (category), or for its
    # end (succession).
    streams: Literal["category", "succession"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.streams and not self.nodes_per_stream:
            raise ValueError(
                "field nodes_per_stream: a list of numbers, where streams is given, is needed, "
                "found nothing"
            )


class FamilyChoice(_Given, frozen=True, kw_only=True, tag="family"):
    """Problems of a synthetic family, one for every combination of parameters and seeds."""

    family: str
    # The values that each parameter takes in turn.
    parameters: Mapping[str, Numbers] = {}
    seeds: Counts = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.family_name not in FAMILIES:
            raise ValueError(
                f"field family: no family is called {shown(self.family)}; "
                f"{near_names(self.family_name, FAMILIES)}"
            )

    @property
    def family_name(self) -> str:
        """The name of its function."""
        return self.family.replace("-", "_")


class FileChoice(_MayVary, frozen=True, kw_only=True, tag="files"):
    """Instance files of any format: names or wildcards, relative to a folder."""

    files: Texts
    # The part of each file that is a problem, as in `RecordingPart`.
    iteration: str = "all"
    persistent: bool = True
    static: bool = False
    microbatches: Counts = (1,)

    def __post_init__(self) -> None:
        super().__post_init__()
        for _, pattern in self.patterns:
            if not Path(pattern).name:
                raise ValueError(
                    f"field files: the name of a file, or wildcards, is needed, found "
                    f"{shown(pattern)}"
                )
            if _WALKS_TOO_FAR.search(pattern):
                raise ValueError(
                    f"field files: ** is needed at most once and below a folder of the root, and "
                    f".. at the begin alone and without **, found {shown(pattern)}"
                )
        try:
            _ = self.parts
        except GaplessError as error:
            raise ValueError(str(error)) from None

    @property
    def patterns(self) -> list[tuple[str | None, str]]:
        """Patterns with the name of the folder that they are relative to, None for the study's."""
        found = ((_IN_A_FOLDER.fullmatch(pattern), pattern) for pattern in self.files)
        return [(None, pattern) if its is None else (its[1], its[2]) for its, pattern in found]

    @property
    def parts(self) -> tuple[RecordingPart, ...]:
        """The parts of each file that are problems: one for each number of microbatches."""
        return tuple(
            RecordingPart(self.iteration, self.persistent, self.static, number)
            for number in self.microbatches
        )


class ExtractionChoice(_Given, frozen=True, kw_only=True, tag="extract"):
    """Steps of a model, extracted for every combination of parameters; needs PyTorch."""

    # Name and options, as of ``python -m instances.extract``.
    extract: Annotated[str, Meta(pattern=r"\S", description="a model with its options")]
    parameters: Mapping[str, Options] = {}


class TrainingChoice(_Choice, frozen=True, kw_only=True, tag="trainings"):
    """Trainings of models, each as on the command line, such as ``bert-base --batch 32``."""

    trainings: Texts


InstanceChoice = CatalogueChoice | FamilyChoice | FileChoice | ExtractionChoice | TrainingChoice


@dataclass(frozen=True)
class RunLimits:
    """The limits of each run."""

    # Told to the planner: a time limit, and one on search nodes for answers that repeat exactly.
    budget_seconds: float | None
    node_limit: int | None
    threads: int
    # Address space that the process of a run may take beyond its initial one.
    memory_bytes: int
    # Time after which the process of a run is killed.
    seconds: float


class GridSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a grid, or of a study for all of its grids.

    Parameters
    ----------
    planners, online, budget, fit, limited
        By kind of run: planners, online allocators, budget planners with a ``limit``, allocators
        under which memory is predicted, or ways to run a step within a limit.
        Names or wildcards as on the command line; ``NAME:KEY=VALUE`` sets a parameter.
    seeds, repetitions
        Seeds of each combination, and the number of runs with each seed.
    budget_seconds, node_limit, threads, memory, seconds
        Limits of each run, as in :class:`RunLimits`.
    device
        Device from which allocators take memory; its times count, except on the ledger.
    instances
        Instances of the catalogue, of synthetic families, of models, or in files.
    """

    planners: Texts = ()
    online: Texts = ()
    budget: Texts = ()
    fit: Texts = ()
    limited: Texts = ()
    seeds: Counts = (0,)
    repetitions: OneOrMore = 1
    budget_seconds: Seconds | None = None
    node_limit: Count | None = None
    threads: OneOrMore = 1
    memory: str = "4GiB"
    seconds: Seconds | None = None
    device: OnlineDevice = OnlineDevice.LEDGER
    instances: tuple[InstanceChoice, ...] = ()


class Grid(GridSettings, frozen=True, kw_only=True):
    """Every planner on every instance, with every seed, ``repetitions`` times."""

    instances: Annotated[
        tuple[InstanceChoice, ...], Meta(min_length=1, description="a list of tables")
    ]

    def __post_init__(self) -> None:
        budget, seconds = self.budget_seconds, self.seconds
        if budget is None and seconds is None:
            raise ValueError(
                "field seconds: a limit of each run, where there is no budget_seconds, is needed, "
                "found nothing"
            )
        if budget is not None and seconds is not None and seconds < budget:
            raise ValueError(
                f"field seconds: at least the budget of {budget:g} is needed, found {seconds}"
            )
        if not any(self.named.values()):
            raise ValueError(
                "field planners: a list of planners, or of online allocators in online, is "
                "needed, found nothing"
            )
        try:
            parse_bytes("field memory", self.memory)
        except GaplessError as error:
            raise ValueError(str(error)) from None

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The names of planners and allocators, by kind of run."""
        return {
            "offsets": self.planners, "online": self.online, "budget": self.budget,
            "fit": self.fit, "limited": self.limited,
        }  # fmt: skip

    @property
    def limits(self) -> RunLimits:
        """The limits of each run."""
        budget = self.budget_seconds
        return RunLimits(
            budget_seconds=budget,
            node_limit=self.node_limit,
            threads=self.threads,
            memory_bytes=parse_bytes("field memory", self.memory),
            seconds=(budget or 0.0) + GRACE_SECONDS if self.seconds is None else self.seconds,
        )


@dataclass(frozen=True)
class Plugin:
    """A Python file that registers planners, in the form that travels to workers."""

    name: str
    source: str
    path: Path = dataclass_field(default=Path(), compare=False)


class StudyFile(GridSettings, frozen=True, kw_only=True):
    """The file of a study; its settings hold in every grid that leaves them out.

    Parameters
    ----------
    grids
        Each runs every planner on every instance with every seed, ``repetitions`` times.
    training
        Grids of programs that are trained on a GPU under allocators, in place of ``grids``.
    timed
        True if times count: each run has a core of its own.
    bounds_seconds
        Time limit of the bounds beyond the quick ones, once for each instance.
    folders
        Folders of instances that do not come with the study: a description of each, by name.
    page
        Table for reports; no run depends on it.
    """

    question: str
    grids: Annotated[tuple[Grid, ...], Meta(min_length=1, description="a list of tables")] = field(
        default=(), name="grid"
    )
    training: tuple[TrainingGrid, ...] = ()
    timed: bool = False
    bounds_seconds: Seconds = 10.0
    plugin_files: Texts = field(default=(), name="plugins")
    folders: Mapping[str, str] = {}
    page: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if bool(self.grids) == bool(self.training):
            found = "both" if self.grids else "neither"
            raise ValueError(f"field grid or training: one of the two is needed, found {found}")


class Study(StudyFile, frozen=True, kw_only=True):
    """The content of a study's file, with its name and path, and its plugins as text."""

    name: str
    path: Path
    plugins: tuple[Plugin, ...] = field(name="plugin_contents")
