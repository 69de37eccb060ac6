"""A study: which planners run on which instances, under which limits; plain data."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.study.recording_part import RecordingPart
from instances.catalogue.catalogue_entry import Kind as InstanceKind
from instances.extract.parallel.streams import StreamScheme
from instances.synthetic.family import Parameter
from planners.model.online_result import OnlineDevice


class CapacityFrom(enum.Enum):
    """Where the capacity of an instance stands."""

    INSTANCE = "instance"
    # The last part of the name of its file, as in ``A.1048576.csv``.
    NAME = "name"


# Bytes that a plan has to fit, or where they stand; None asks for the smallest peak.
Capacity = int | CapacityFrom | None


@dataclass(frozen=True)
class CatalogueChoice:
    """Instances of the catalogue: those that meet every condition."""

    # Names or wildcards; one of them is enough.
    names: tuple[str, ...] = ("*",)
    # Every one of them is needed.
    tags: tuple[str, ...] = ()
    kind: InstanceKind | None = None
    least_tensors: int = 0
    most_tensors: int | None = None
    capacity: Capacity = CapacityFrom.INSTANCE
    # Deals the nodes of a graph again to streams that are full after so many, once for each; chains
    # are left out. Streams as they are where it is empty.
    nodes_per_stream: tuple[int, ...] = ()
    # What orders a stream that is dealt so and the full one that it follows.
    streams: StreamScheme = StreamScheme.CATEGORY


@dataclass(frozen=True)
class FamilyChoice:
    """Problems of a synthetic family, one for every combination of parameters and seeds."""

    family: str
    # The values that each parameter takes in turn.
    parameters: Mapping[str, tuple[Parameter, ...]]
    seeds: tuple[int, ...] = (0,)
    capacity: Capacity = CapacityFrom.INSTANCE


@dataclass(frozen=True)
class FileChoice:
    """Instance files of any format: names or wildcards, seen from a folder."""

    files: tuple[str, ...]
    # Name of the folder that whoever runs the study has to give; None for the study's own.
    folder: str | None = None
    # What of each file is a problem, one for each.
    parts: tuple[RecordingPart, ...] = (RecordingPart(),)
    capacity: Capacity = CapacityFrom.INSTANCE


@dataclass(frozen=True)
class ExtractionChoice:
    """Steps of a model, extracted for every combination of parameters; needs PyTorch."""

    # Name and options, as of ``python -m instances.extract``.
    extract: str
    parameters: Mapping[str, tuple[Parameter | str, ...]]
    capacity: Capacity = CapacityFrom.INSTANCE


@dataclass(frozen=True)
class VariedChoice:
    """Variants of other instances: each variation with each seed, or once where it draws none."""

    of: CatalogueChoice | FileChoice
    variations: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class TrainingChoice:
    """Trainings of models, each as on the command line, such as ``bert-base --batch 32``."""

    trainings: tuple[str, ...]


InstanceChoice = (
    CatalogueChoice | FamilyChoice | FileChoice | ExtractionChoice | VariedChoice | TrainingChoice
)


@dataclass(frozen=True)
class RunLimits:
    """What each run may take.

    Parameters
    ----------
    budget_seconds
        Time limit that the planner is told; None for no limit.
    node_limit
        Limit on search nodes that it is told, for answers that repeat exactly.
    threads
        Threads that a planner may use.
    memory_bytes
        Address space that the process of a run may take beyond what it starts with.
    seconds
        After so many its process is killed.
    """

    budget_seconds: float | None
    node_limit: int | None
    threads: int
    memory_bytes: int
    seconds: float


@dataclass(frozen=True)
class Grid:
    """Every planner on every instance, with every seed, so many times.

    Parameters
    ----------
    instances
        Which, of the catalogue, of synthetic families, of models, or in files.
    named
        By kind of run who answers, as on the command line: planners, online allocators, or the
        allocators under which memory is predicted; names or wildcards, ``NAME:KEY=VALUE`` sets a
        parameter.
    seeds, repetitions
        Each combination is run with each seed, so many times.
    limits
        What each run may take.
    """

    instances: tuple[InstanceChoice, ...]
    named: Mapping[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    repetitions: int
    limits: RunLimits
    # What allocators take their memory from; times in it count but on the ledger.
    device: OnlineDevice = OnlineDevice.LEDGER


@dataclass(frozen=True)
class Plugin:
    """A Python file that registers planners, as it travels to who runs them.

    Parameters
    ----------
    name, source
        Of the file, and what it holds.
    path
        Where it was read.
    """

    name: str
    source: str
    path: Path = field(default=Path(), compare=False)


@dataclass(frozen=True)
class Study:
    """What is asked, and the grids of runs that answer it.

    Parameters
    ----------
    name, question
        That of its file, and what it asks, in one sentence.
    grids
        Each every planner on every instance with every seed, so many times.
    timed
        Whether times count: each run has a core of its own.
    bounds_seconds
        What bounds beyond the quick ones may take, once an instance.
    plugins
        Files that register planners, as text.
    folders
        Folders of instances that do not come with the study: by name, what each holds.
    page
        What reports read of it; no run depends on it.
    path
        Its file.
    """

    name: str
    question: str
    grids: tuple[Grid, ...]
    timed: bool
    bounds_seconds: float
    plugins: tuple[Plugin, ...] = ()
    folders: Mapping[str, str] = field(default_factory=dict)
    page: Mapping[str, Any] = field(default_factory=dict)
    path: Path = Path()
