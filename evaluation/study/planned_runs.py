"""The runs of a study in their order, each with a readable key and a digest of its question."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from evaluation.study.kinds import KINDS
from evaluation.study.plugins import digest_of, load_plugins, plugin_of
from evaluation.study.records_file import KnownRecord
from evaluation.study.run_task import Named, RunKind
from evaluation.study.sent_instance import Training
from evaluation.study.study import Grid, Plugin, RunLimits, Study, TrainingChoice
from evaluation.study.study_instances import Folders, StudyInstance, subjects_of
from evaluation.study.training_grid import TrainedRun, trained_programs
from planners.errors import GaplessError, UnknownPlannerError, near_names
from planners.files.json_file import compact_json
from planners.model.online_result import OnlineDevice

# A run takes about a kilobyte of the runner's memory, and its key besides. Guesses.
MOST_RUNS = 500_000
MOST_KEY_CHARACTERS = 100_000_000


# The kind of run, the planner or allocator, and the plugin that registers it.
Choice = tuple[RunKind[Any], Named, Plugin | None]
Chooser = Callable[[str, str], Sequence[Choice]]


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One run that a study asks for."""

    instance: StudyInstance | Training
    kind: RunKind[Any]
    named: Named
    # The study's plugin that registers the planner; None for any other planner.
    plugin: Plugin | None
    seed: int
    repetition: int
    limits: RunLimits
    device: OnlineDevice
    # Settings that all runs of the study share.
    of_study: Mapping[str, Any]

    @property
    def _asks_device(self) -> bool:
        return self.kind.asks_device and self.device is not OnlineDevice.LEDGER

    @cached_property
    def key(self) -> str:
        """The name of the run, unique within its study."""
        kind = self.kind
        # A file may hold a prediction and a measurement of one run: their keys must differ.
        device = f"{self.device}/" if kind.names_device and self._asks_device else ""
        return (
            f"{self.instance.name}/{kind.prefix}{device}{self.named.label}"
            f"/seed={self.seed}/repetition={self.repetition}"
        )

    @cached_property
    def asked(self) -> str:
        """Digest of everything that decides the answer and the cost of the run."""
        plugin = self.plugin
        question = {
            **self.of_study,
            "plugins": [{"name": plugin.name, "source": plugin.source}] if plugin else [],
            "instance": asdict(self.instance.question),
            "kind": self.kind.name,
            "planner": self.named.planner,
            "parameters": dict(self.named.parameters),
            "seed": self.seed,
            "limits": asdict(self.limits),
        }
        if self._asks_device:
            question["device"] = self.device
        return "sha256:" + hashlib.sha256(compact_json(question).encode()).hexdigest()

    @property
    def file(self) -> Path | None:
        """The file of its instance; None if the instance is generated."""
        return self.instance.file

    def changed_since(self, record: KnownRecord) -> str:
        """Name the file that changed since a record of another question was made, or nothing."""
        if record.plugin != digest_of(self.plugin) and self.plugin is not None:
            return f"plugin {self.plugin.path}"
        if record.instance_digest != self.instance.question.digest:
            return f"instance {self.instance.file or self.instance.name}"
        return ""


AnyRun = TypeVar("AnyRun", PlannedRun, TrainedRun)


def trained_runs_of(study: Study, folders: Folders, only: Sequence[str] = ()) -> list[TrainedRun]:
    """Return the runs of a study's trainings, those of a program one after the other."""
    folders.require_all(study.folders)
    runs = [
        TrainedRun(program, run.allocator)
        for program in trained_programs(study.training)
        for run in program.timed
    ]
    return _chosen(study, runs, only)


def runs_of(
    study: Study, folders: Folders, only: Sequence[str] = (), *, executes_plugins: bool = True
) -> list[PlannedRun]:
    """Return the runs of a study's grids, those of an instance one after the other."""
    folders.require_all(study.folders)
    if executes_plugins:
        load_plugins(study.plugins)
    chosen_by = cache(partial(_choices, bool(study.plugins) and not executes_plugins))
    runs: dict[str, PlannedRun] = {}
    number = characters = 0
    for grid in study.grids:
        for run in _runs_of_grid(study, grid, folders, chosen_by):
            number, characters = number + 1, characters + len(run.key)
            if number > MOST_RUNS or characters > MOST_KEY_CHARACTERS:
                raise GaplessError(
                    f"study {study.name}: at most {MOST_RUNS:,} runs, and keys of "
                    f"{MOST_KEY_CHARACTERS:,} characters in all, are needed, found more; cut it "
                    f"into several files"
                )
            known = runs.setdefault(run.key, run)
            unlike = _unlike(known, run)
            if unlike:
                raise GaplessError(
                    f"study {study.name}: two grids ask for {run.key} under unlike {unlike}; take "
                    f"it out of one of them"
                )
    return _chosen(study, list(runs.values()), only)


def _chosen(study: Study, runs: Sequence[AnyRun], only: Sequence[str]) -> list[AnyRun]:
    """Return the runs whose keys match one of the wildcards; without wildcards all."""
    chosen = [run for run in runs if not only or _matches(run.key, only)]
    if not chosen:
        raise GaplessError(
            f"--only: no run of {study.name} matches {', '.join(only)}; "
            f"{near_names(only[0], [run.key for run in runs])}"[:1000]
        )
    return chosen


def _unlike(one: PlannedRun, other: PlannedRun) -> str:
    """Name the setting in which two runs of one key differ; empty if none does."""
    if one.limits != other.limits:
        return "limits"
    if one.instance.capacity != other.instance.capacity:
        return "capacities"
    ours, others = one.instance.file, other.instance.file
    if ours is not None and others is not None and not os.path.samefile(ours, others):
        return f"files, {ours} and {others}"
    return "devices" if one.device != other.device else ""


def _matches(key: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)


def _choices(may_be_unseen: bool, kind_name: str, text: str) -> list[Choice]:
    """Choose by a text as on the command line; an unregistered name may be taken as written."""
    kind = KINDS[kind_name]
    try:
        return [(kind, each, plugin_of(kind.name, each.planner)) for each in kind.choose(text)]
    except UnknownPlannerError:
        if not may_be_unseen:
            raise
        return [(kind, Named(text.partition(":")[0], text), None)]


def _runs_of_grid(
    study: Study, grid: Grid, folders: Folders, chosen_by: Chooser
) -> Iterator[PlannedRun]:
    of_study = {"timed": study.timed, "bounds_seconds": study.bounds_seconds}
    chosen = [
        each
        for kind, names in grid.named.items()
        for name in names
        for each in chosen_by(kind, name)
    ]
    limits = grid.limits
    for choice in grid.instances:
        is_training = isinstance(choice, TrainingChoice)
        for kind, _, _ in chosen:
            if (kind.runs_on is Training) is not is_training:
                raise GaplessError(
                    f"study {study.name}: a grid with field {kind.in_grid} runs on "
                    f"{'instances' if is_training else 'trainings'}, found "
                    f"{'trainings' if is_training else 'instances'}"
                )
        for instance in subjects_of(choice, folders):
            for seed in grid.seeds:
                for repetition in range(grid.repetitions):
                    for each in chosen:
                        yield PlannedRun(
                            instance,
                            *each,
                            seed,
                            repetition,
                            limits,
                            grid.device,
                            of_study,
                        )
