"""A study is read as it is written, and each fault in its file is one line."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from evaluation.study.study import (
    CapacityFrom,
    CatalogueChoice,
    FamilyChoice,
    FileChoice,
    RunLimits,
)
from evaluation.study.study_file import Typed, find_study, read_study, schema_of, studies
from planners.errors import GaplessError, InstanceError
from tests.evaluation.study.made_up_records import record
from tests.evaluation.study.test_record import RECORD

WHOLE = """
question = "What is asked?"
timed = true
budget_seconds = 2
seeds = [3, 4]
memory = "1GiB"
plugins = ["own.py"]
page = { title = "A page" }

[[grid]]
planners = ["greedy-*", "auto"]
repetitions = 5
node_limit = 7
threads = 2
[[grid.instances]]
names = ["bert*", "tiny-bert"]
tags = ["streams"]
kind = "extracted graph"
least_tensors = 10
most_tensors = 5000
capacity = false

[[grid]]
online = ["pytorch-caching"]
budget_seconds = 3
seconds = 60
[[grid.instances]]
family = "guillotine-packing"
parameters = { tensors = [60, 80], pinned = 2 }
seeds = [1]
[[grid.instances]]
files = ["own/*.json"]
[[grid.instances]]
files = ["*.csv"]
capacity = "name"
variations = ["mirrored", "smaller"]
seeds = [1, 2]
[[grid.instances]]
names = ["bert"]
capacity = 1048576
"""

SMALL = """
question = "?"
planners = ["naive"]
seconds = 1
[[grid]]
[[grid.instances]]
"""


def write(folder: Path, text: str) -> Path:
    (folder / "own.py").write_text("# none")
    path = folder / "asked.toml"
    path.write_text(text)
    return path


def test_everything_that_a_file_says_is_read(tmp_path: Path) -> None:
    study = read_study(write(tmp_path, WHOLE))
    assert (study.name, study.question, study.timed) == ("asked", "What is asked?", True)
    assert [(plugin.name, plugin.source) for plugin in study.plugins] == [("own.py", "# none")]
    assert study.page == {"title": "A page"}
    first, second = study.grids
    assert first.named["offsets"] == ("greedy-*", "auto")
    assert (first.seeds, first.repetitions) == ((3, 4), 5)
    assert first.limits == RunLimits(2.0, 7, 2, 1 << 30, 7.0)
    [chosen] = first.instances
    assert isinstance(chosen, CatalogueChoice)
    assert (chosen.names, chosen.tags) == (("bert*", "tiny-bert"), ("streams",))
    assert (chosen.kind, chosen.least_tensors, chosen.most_tensors) == (
        "extracted graph", 10, 5000,
    )  # fmt: skip
    assert chosen.asked_capacity is None
    assert (second.named["online"], second.repetitions) == (("pytorch-caching",), 1)
    assert second.limits == RunLimits(3.0, None, 1, 1 << 30, 60.0)
    family, files, varied, named = second.instances
    assert isinstance(family, FamilyChoice)
    assert family.family_name == "guillotine_packing"
    assert (family.parameters, family.seeds) == ({"tensors": (60, 80), "pinned": 2}, (1,))
    assert isinstance(files, FileChoice)
    assert files.patterns == [(None, "own/*.json")]
    assert isinstance(varied, FileChoice)
    assert varied.asked_capacity is CapacityFrom.NAME
    assert (varied.variations, varied.seeds) == (("mirrored", "smaller"), (1, 2))
    assert isinstance(named, CatalogueChoice)
    assert named.asked_capacity == 1 << 20


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("question", "quesiton", "field 'quesiton': unknown; did you mean 'question'"),
        ('question = "?"', "", "field question: missing, and it is needed"),
        ("seconds = 1", "", "grid 1, field seconds: a limit of each run"),
        ("seconds = 1", "seconds = true", "field seconds: a number of at least 0"),
        ("seconds = 1", "seconds = nan", "field seconds: a number of at least 0"),
        ("seconds = 1", "seconds = 1\nbudget_seconds = 2", "at least the budget of 2 is needed"),
        ("seconds = 1", 'seconds = 1\nmemory = "big"', "field memory"),
        (
            "seconds = 1",
            "seconds = 1\nseeds = [-1]",
            "field seeds[0]: a whole number of at least 0",
        ),
        ("seconds = 1", "seconds = 1\nseeds = []", "a list of whole numbers of at least 0"),
        ("seconds = 1", "seconds = 1\nrepetitions = 0", "a whole number of at least 1"),
        ("seconds = 1", "seconds = 1\nthreads = 0", "a whole number of at least 1"),
        ("seconds = 1", "seconds = 1\ntimed = 1", "field timed: true or false"),
        ('planners = ["naive"]', "", "grid 1, field planners: a list of planners"),
        ('planners = ["naive"]', 'planners = "naive"', "field planners: a list of texts"),
        ("[[grid]]", "[[gird]]", "field 'gird': unknown; did you mean 'grid'"),
        ("[[grid.instances]]", "", "grid 1, field instances: missing, and it is needed"),
        ("instances]]", 'instances]]\nname = "bert"', "instances 1, field 'name': unknown; did"),
        ("instances]]", 'instances]]\nkind = "real"', "instances 1, field kind: one of extracted"),
        (
            "instances]]",
            'instances]]\nnodes_per_stream = [1]\nstreams = "roles"',
            "instances 1, field streams: one of category, succession is needed",
        ),
        (
            "instances]]",
            'instances]]\nstreams = "succession"',
            "instances 1, field nodes_per_stream: a list of numbers, where streams is given",
        ),
        ("instances]]", 'instances]]\nfamily = "pinwheel"', "no family is called 'pinwheel'"),
        (
            "instances]]",
            'instances]]\nfamily = "training-trace"\nparameters = { tensors = "9" }',
            "instances 1, field parameters.tensors: a number or a list of numbers",
        ),
        (
            "instances]]",
            'instances]]\nextract = "bert"\nparameters = { streams = ["roles", true] }',
            "instances 1, field parameters.streams: a number, a text, or a list of them",
        ),
        (
            "instances]]",
            'instances]]\nfiles = ["{sets}/a.csv"]',
            "'{sets}/a.csv' is in a folder that the table folders does not have",
        ),
        (
            "instances]]",
            'instances]]\ncapacity = "name"',
            "field capacity: a whole number of bytes, true or false is needed, found 'name'",
        ),
        (
            "instances]]",
            'instances]]\nfiles = ["a.csv"]\ncapacity = "1MiB"',
            'field capacity: a whole number of bytes, "name", true or false is needed, found',
        ),
        ("instances]]", "instances]]\ncapacity = -1", "field capacity: a whole number of bytes"),
        (
            "instances]]",
            'instances]]\nvariations = ["mirored"]',
            "field variations: none is called 'mirored'; did you mean 'mirrored'",
        ),
        ("instances]]", "instances]]\nseeds = [1]", "field variations: a list of texts, for the"),
        (
            "instances]]",
            'instances]]\nextract = "bert-base"\nvariations = ["mirrored"]',
            "field 'variations': unknown",
        ),
        ("[[grid]]", "folders = { sets = 1 }\n[[grid]]", "field folders.sets: a text is needed"),
        ("[[grid]]", "grid = [[", "the file is no TOML"),
    ],
)
def test_a_fault_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path, SMALL.replace(old, new, 1))
    with pytest.raises(GaplessError) as error:
        read_study(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path)) or "memory" in message


def test_a_missing_plugin_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, 'plugins = ["theirs.py"]\n' + SMALL)
    with pytest.raises(InstanceError, match=r"theirs\.py"):
        read_study(path)


def test_a_study_that_ships_is_found_by_its_name() -> None:
    assert find_study("regression").name == "regression"
    with pytest.raises(GaplessError, match="none has this name; did you mean 'regression'"):
        find_study("regresion")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a" + ".a" * 50_000 + " = 1", "line 1: at most 100 points are needed, found 50000"),
        ("[page]\n" + "".join(f"a{n} = 1\n" for n in range(6000)), "at most 10000 keys and values"),
        (f"page = {{ a = {list(range(11_000))} }}", "at most 10000 keys and values"),
        (f'question = "{"a" * 4001}"', "a text of at most 4000 characters is needed"),
        (f"{'a' * 4001} = 1", "a text of at most 4000 characters is needed"),
        (f"page = {{ a = 0x{'f' * 17} }}", "a whole number within int64 is needed"),
        ("#" * (1 << 18) + "\n", "at most 262144 bytes are read"),
        (SMALL + 'files = [""]', "field files: the name of a file, or wildcards, is needed"),
        (SMALL + 'files = ["./"]', "field files: the name of a file, or wildcards, is needed"),
        (SMALL + 'files = ["/"]', "field files: the name of a file, or wildcards, is needed"),
        (SMALL + 'files = ["/**/*.csv"]', "** is needed at most once and below a folder of the"),
        (SMALL + 'extract = " "', "field extract: a model with its options is needed"),
        (SMALL + 'files = ["**/**/*"]', "field files: ** is needed at most once"),
        (SMALL + 'files = ["../**"]', "field files: ** is needed at most once"),
        (SMALL + 'files = ["a/../*"]', "field files: ** is needed at most once"),
    ],
)
def test_a_file_that_would_take_time_or_memory_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InstanceError, match=re.escape(message)):
        read_study(write(tmp_path, text))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InstanceError, match="a plain file is needed"):
        read_study(tmp_path / "pipe.toml")


STUDY = Draft202012Validator(schema_of(Typed.STUDY))
ONE_RECORD = Draft202012Validator(schema_of(Typed.RECORD))


@pytest.mark.parametrize("path", studies().values(), ids=lambda path: path.stem)
def test_every_study_meets_the_schema(path: Path) -> None:
    STUDY.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("made", [
    RECORD, record("a", "vpmm", kind="online"), record("a", "planned", kind="fit", measured=True),
])  # fmt: skip
def test_a_record_of_each_kind_meets_the_schema(made: object) -> None:
    line = json.loads(made.to_json())  # type: ignore[attr-defined]
    ONE_RECORD.validate(line)
    for change in ({"peek": 1}, {"kind": "both"}, {"seed": -1}, {"status": "optimum"}):
        with pytest.raises(ValidationError):
            ONE_RECORD.validate(line | change)
