"""The instances of a study: each with its name and question, read or made when it is needed."""

from __future__ import annotations

import fnmatch
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from evaluation.study.recording_part import name_with
from evaluation.study.sent_instance import Question, SentInstance, Training
from evaluation.study.study import (
    Capacity,
    CapacityFrom,
    CatalogueChoice,
    ExtractionChoice,
    FamilyChoice,
    FileChoice,
    InstanceChoice,
    TrainingChoice,
)
from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.catalogue_file import CATALOGUE, read_catalogue
from instances.catalogue.instance_folders import file_label, file_of, folders_of, place_of
from instances.extract.kernels.streams import dealt_again
from instances.extract.step_settings import StreamScheme
from instances.synthetic import FAMILIES
from instances.synthetic.variations import is_drawn, vary
from planners.errors import GaplessError, InstanceError, errors_at, near_names
from planners.files.bounded_file import require_plain_file
from planners.files.formats import read_with_requests
from planners.files.named_instance import instance_file
from planners.files.problem_file import problem_digest
from planners.files.recording_slice import RecordingSlice
from planners.model.columns import INT64_MAX
from planners.model.problem import Problem
from planners.model.request_sequence import RequestSequence
from planners.processes.child_process import run_to_end
from planners.text.plain_text import printable

WHOLE = RecordingSlice()
MOST_NAME_CHARACTERS = 1000

Content = tuple[Problem, RequestSequence | None]
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class StudyInstance:
    """An instance of a study; it holds no problem, for a study may have many."""

    name: str
    # The name of its generator; None for a file.
    family: str | None
    # The bytes into which a plan has to fit.
    capacity: Capacity
    # Reads or generates the problem.
    read: Callable[[], Content]
    # Digest and capacity by the catalogue, known without reading the file.
    recorded: Question | None = None
    # The file of the instance; None if it is generated.
    file: Path | None = None

    def __post_init__(self) -> None:
        if len(self.name) > MOST_NAME_CHARACTERS:
            raise InstanceError(
                f"instance {self.name[:60]}...: a name of at most {MOST_NAME_CHARACTERS} "
                f"characters is needed, found {len(self.name)}"
            )

    @cached_property
    def question(self) -> Question:
        """The question that its runs answer."""
        if self.recorded is not None:
            return self._asked(self.recorded)
        problem, _ = self.read()
        return self._asked(Question(problem_digest(problem), problem.capacity))

    def content(self) -> Content:
        """Return the problem under its name in this study, and the requests of a recording."""
        problem, requests = self.read()
        if self.recorded is not None and problem_digest(problem) != self.recorded.digest:
            raise InstanceError(
                f"instance {self.name}: its file is another one than the catalogue has; "
                f"`git checkout` brings the file back, `python -m instances update` records it"
            )
        named = problem.with_name(self.name)
        return named.with_capacity(self._asked_of(problem.capacity)), requests

    def _asked(self, question: Question) -> Question:
        return Question(question.digest, self._asked_of(question.capacity))

    def _asked_of(self, own: int | None) -> int | None:
        """Return the capacity that a plan has to fit; ``own`` is the capacity of the problem."""
        return own if isinstance(self.capacity, CapacityFrom) else self.capacity

    def sent(self) -> SentInstance:
        """Return the form in which it travels to workers."""
        problem, requests = self.content()
        digest = self.question.digest
        return SentInstance.of(problem, requests, family=self.family, digest=digest)


@dataclass(frozen=True)
class Folders:
    """The folders of a study's instance files."""

    # The folder of the study's own files.
    own: Path
    # Folders that the user gave for the names in the study.
    given: Mapping[str, Path] = field(default_factory=dict)

    def require_all(self, needed: Mapping[str, str]) -> None:
        """Refuse a folder that the study does not name, was not given or does not exist."""
        for name, path in self.given.items():
            if name not in needed:
                raise GaplessError(
                    f"--folder {name}={path}: the study names no such folder; "
                    f"{near_names(name, needed) if needed else 'it names none'}"
                )
            if not path.is_dir():
                raise GaplessError(f"--folder {name}={path}: a folder is needed, found none there")
        for name, what in needed.items():
            if name not in self.given:
                raise GaplessError(
                    f"--folder {name}=PATH is needed, found none: {what.strip().rstrip('.')}"
                )

    def of(self, name: str | None) -> Path:
        """Return the folder of a name, or the study's own for None."""
        return self.own if name is None else self.given[name]


def subjects_of(
    choice: InstanceChoice, folders: Folders
) -> Iterator[StudyInstance] | Iterator[Training]:
    """Yield the instances or trainings of a choice one by one; a line can choose any number."""
    if isinstance(choice, TrainingChoice):
        return map(Training, choice.trainings)
    if isinstance(choice, FamilyChoice):
        return map(_named_by_capacity, _of_family(choice))
    if isinstance(choice, ExtractionChoice):
        return map(_named_by_capacity, _of_extractions(choice))
    found = _of_files(choice, folders) if isinstance(choice, FileChoice) else _of_catalogue(choice)
    instances = map(_named_by_capacity, found)
    if not choice.variations:
        return instances
    return (variant for each in instances for variant in _variants(each, choice))


def _named_by_capacity(instance: StudyInstance) -> StudyInstance:
    """Return an instance whose name says the capacity that is given to it, if one is."""
    capacity = instance.capacity
    if capacity is CapacityFrom.NAME:
        capacity = _capacity_in(instance.name)
    if capacity is None or isinstance(capacity, CapacityFrom):
        return instance
    name = name_with(instance.name, {"capacity": capacity})
    return replace(instance, name=name, capacity=capacity)


def _capacity_in(name: str) -> int:
    found = re.search(r"\.(\d+)(\.[^.]*)?$", name)
    if found is None or int(found[1]) > INT64_MAX:
        raise InstanceError(
            f"instance {name}: a capacity is needed as the last part of the file's name, such as "
            f"A.1048576.csv, found none; give one in bytes"
        )
    return int(found[1])


def _variants(
    instance: StudyInstance, choice: CatalogueChoice | FileChoice
) -> Iterator[StudyInstance]:
    for variation in choice.variations:
        for seed in choice.seeds or (0,) if is_drawn(variation) else (None,):
            drawn = {} if seed is None else {"seed": seed}
            name = name_with(instance.name, {"variation": variation, **drawn})
            make = partial(_varied, instance, variation, seed or 0)
            yield StudyInstance(
                name, instance.name, CapacityFrom.INSTANCE, make, file=instance.file
            )


def _varied(instance: StudyInstance, variation: str, seed: int) -> Content:
    problem, _ = instance.content()
    return vary(problem, variation, seed), None


def _of_catalogue(choice: CatalogueChoice) -> Iterator[StudyInstance]:
    catalogue = read_catalogue()
    for name in choice.names:
        if not fnmatch.filter(catalogue, name):
            raise InstanceError(
                f"no instance of the catalogue matches {name!r}; {near_names(name, catalogue)}"
            )
    chosen = [entry for entry in catalogue.values() if _meets(choice, entry)]
    if not chosen:
        raise InstanceError(
            f"no instance of the catalogue meets every condition, names {', '.join(choice.names)} "
            f"among them; leave one out"
        )
    for entry in chosen:
        question = Question(entry.facts.digest, entry.facts.capacity)
        read, file = partial(_read_entry, entry), place_of(entry, folders_of(CATALOGUE))
        if not choice.nodes_per_stream:
            yield StudyInstance(entry.name, None, choice.asked_capacity, read, question, file)
        for nodes in choice.nodes_per_stream:
            settings: dict[str, object] = {"nodes_per_stream": nodes}
            scheme = StreamScheme(choice.streams or StreamScheme.CATEGORY)
            if scheme is not StreamScheme.CATEGORY:
                settings["streams"] = scheme.value
            name = name_with(entry.name, settings)
            deal = partial(_dealt_again, entry, nodes, scheme)
            yield StudyInstance(name, entry.name, choice.asked_capacity, deal, file=file)


def _meets(choice: CatalogueChoice, entry: CatalogueEntry) -> bool:
    tensors = entry.facts.tensors
    return (
        any(fnmatch.fnmatchcase(entry.name, name) for name in choice.names)
        # An instance outside of the repository is chosen by its full name only.
        and (entry.committed or entry.name in choice.names)
        and set(choice.tags) <= set(entry.tags)
        and choice.kind in (None, entry.kind)
        and choice.least_tensors <= tensors
        and (choice.most_tensors is None or tensors <= choice.most_tensors)
    )


def _read_entry(entry: CatalogueEntry) -> Content:
    return read_with_requests(file_of(entry), WHOLE)


def _dealt_again(entry: CatalogueEntry, nodes: int, scheme: StreamScheme) -> Content:
    return dealt_again(_read_entry(entry)[0], nodes, scheme), None


def _of_family(choice: FamilyChoice) -> Iterator[StudyInstance]:
    family = FAMILIES[choice.family_name]
    parameters = inspect.signature(family).parameters.keys()
    known, has_seed = parameters - {"seed"}, "seed" in parameters
    for name in choice.parameters:
        if name not in known:
            raise InstanceError(
                f"family {choice.family_name} has no parameter {name!r}; {near_names(name, known)}"
            )
    name = choice.family_name.replace("_", "-")
    for given in _combinations(choice.parameters):
        for seed in choice.seeds if has_seed else (None,):
            settings = given if seed is None else {**given, "seed": seed}
            make = partial(_make, family, settings)
            yield StudyInstance(name_with(name, settings), name, choice.asked_capacity, make)


def _combinations(
    parameters: Mapping[str, Value | tuple[Value, ...]],
) -> Iterator[dict[str, Value]]:
    listed = (its if isinstance(its, tuple) else (its,) for its in parameters.values())
    for values in itertools.product(*listed):
        yield dict(zip(parameters, values, strict=True))


def _of_extractions(choice: ExtractionChoice) -> Iterator[StudyInstance]:
    model = choice.extract.split()[0]
    for given in _combinations(choice.parameters):
        options = [word for key, value in given.items() for word in (f"--{key}", str(value))]
        extract = partial(_extracted, (*choice.extract.split(), *options))
        yield StudyInstance(name_with(model, given), model, choice.asked_capacity, extract)


@cache
def _extracted(words: tuple[str, ...]) -> Content:
    """Extract an instance once, for its digest and for its runs."""
    with TemporaryDirectory(prefix="gapless-") as folder:
        path = Path(folder) / "extracted.json.gz"
        program = (sys.executable, "-m", "gapless_siblings", "instances.extract")
        command = [*program, *words, "-o", str(path)]
        ended = run_to_end(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            said = ended.stderr.strip().splitlines() or ["it says nothing"]
            raise InstanceError(
                f"instances.extract {' '.join(words)}: {said[-1].removeprefix('error: ')}"
            )
        return read_with_requests(path, WHOLE)


def _make(family: Callable[..., Problem], settings: dict[str, int | float]) -> Content:
    try:
        return family(**settings), None
    except TypeError as error:  # a parameter without a default is not given
        raise InstanceError(f"family {family.__name__}: {error}") from None


def _of_files(choice: FileChoice, folders: Folders) -> Iterator[StudyInstance]:
    for folder_name, pattern in choice.patterns:
        # An absolute pattern is seen from the root.
        folder = Path("/") if Path(pattern).is_absolute() else folders.of(folder_name)
        found = sorted(folder.glob(pattern.lstrip("/")))
        if not found and instance_file(Path(pattern)) != Path(pattern):
            found = [Path(pattern)]
        if not found:
            raise InstanceError(f"{folder / pattern}: an instance file is needed, found none")
        for path in found:
            with errors_at(path):
                require_plain_file(path)
            for part in choice.parts:
                name = printable(part.name_of(file_label(path)))
                read = partial(part.read, path)
                yield StudyInstance(name, None, choice.asked_capacity, read, file=path)
