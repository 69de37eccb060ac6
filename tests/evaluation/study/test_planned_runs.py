"""The runs of a study: each with a key of its own, and a digest of all that it asks."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from evaluation.study.planned_runs import PlannedRun, runs_of
from evaluation.study.study import FileChoice, Study
from evaluation.study.study_file import FOLDER, find_study, read_study, studies
from evaluation.study.study_instances import Folders
from evaluation.study.training_grid import trained_programs
from planners import Problem, write_problem
from planners.errors import GaplessError

STUDY = """
question = "?"
planners = ["naive", "greedy-size-*:chain_rule=exact"]
seconds = 5
[[grid]]
[[grid.instances]]
files = ["*.json"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_problem(Problem([4, 8], [0, 1], [2, 3], capacity=12), tmp_path / "pair.json")
    return tmp_path


def runs(folder: Path, text: str = STUDY, *only: str) -> list[PlannedRun]:
    (folder / "own.toml").write_text(text)
    return runs_of(read_study(folder / "own.toml"), Folders(folder), only)


def naive_runs(folder: Path, instances: str) -> list[PlannedRun]:
    """Return the runs of one planner on other instances than the files of the folder."""
    return runs(folder, STUDY.replace('files = ["*.json"]', instances), "*/naive/*")


def test_keys_name_the_run(folder: Path) -> None:
    text = STUDY.replace("seconds = 5", 'seconds = 5\nseeds = [0, 9]\nonline = ["pytorch-caching"]')
    keys = [run.key for run in runs(folder, text, "*/seed=9/*")]
    assert keys == [
        "pair/naive/seed=9/repetition=0",
        "pair/greedy-size-first:chain_rule=exact/seed=9/repetition=0",
        "pair/greedy-size-best:chain_rule=exact/seed=9/repetition=0",
        "pair/online/pytorch-caching/seed=9/repetition=0",
    ]


@pytest.mark.parametrize(
    "pattern", ["pair.json", "*.json", "{}/pair.json", "{}/*.json", "{}/**/*.json", "{}/p*/*.json"]
)
def test_a_pattern_is_seen_from_the_folder_or_the_root(folder: Path, pattern: str) -> None:
    (folder / "pairs").mkdir()
    write_problem(Problem([4], [0], [2]), folder / "pairs" / "one.json")
    text = STUDY.replace("*.json", pattern.format(folder.resolve()))
    found = {run.instance.name for run in runs(folder, text)}
    expected = {"one"} if "p*" in pattern else {"pair", "one"} if "**" in pattern else {"pair"}
    assert found == expected


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (
            'family = "random-lifetimes"\nparameters = { tensors = [3, 4] }\nseeds = [0, 1]',
            [f"random-lifetimes:tensors={its}:seed={seed}" for its in (3, 4) for seed in (0, 1)],
        ),
        # It has no seed.
        ('family = "best-fit-trap"\nparameters = { rounds = 2 }', ["best-fit-trap:rounds=2"]),
    ],
)
def test_a_family_gives_a_problem_for_each_of_its_values_and_seeds(
    folder: Path, chosen: str, names: list[str]
) -> None:
    found = naive_runs(folder, chosen)
    assert [run.instance.name for run in found] == names
    for run in found:
        problem, _ = run.instance.content()
        assert problem.name == run.instance.name
        assert f"tensors={problem.tensor_count}" in problem.name or "rounds" in problem.name


@pytest.mark.parametrize(
    "change",
    [
        ("seconds = 5", "seconds = 6"),
        ("seconds = 5", "seconds = 5\nbudget_seconds = 1"),
        ("seconds = 5", "seconds = 5\nnode_limit = 1"),
        ("seconds = 5", 'seconds = 5\nmemory = "1GiB"'),
        ("seconds = 5", "seconds = 5\nthreads = 2"),
        ("seconds = 5", "seconds = 5\ntimed = true"),
        ("seconds = 5", "seconds = 5\nbounds_seconds = 1"),
        ('files = ["*.json"]', 'files = ["*.json"]\ncapacity = false'),
    ],
)
def test_each_setting_of_a_run_changes_the_digest(folder: Path, change: tuple[str, str]) -> None:
    [before] = runs(folder, STUDY, "*/naive/*")
    [again] = runs(folder, STUDY, "*/naive/*")
    [after] = runs(folder, STUDY.replace(*change), "*/naive/*")
    assert before.asked == again.asked
    assert before.key == after.key
    assert before.asked != after.asked


def test_another_content_of_an_instance_changes_the_digest(folder: Path) -> None:
    [before] = runs(folder, STUDY, "*/naive/*")
    first = before.asked
    for problem in (
        Problem([4, 9], [0, 1], [2, 3], capacity=12),
        Problem([4, 8], [0, 1], [2, 3], capacity=13),
    ):
        write_problem(problem, folder / "pair.json")
        [after] = runs(folder, STUDY, "*/naive/*")
        assert after.asked != first


def test_without_a_capacity_the_question_is_the_smallest_peak(folder: Path) -> None:
    [asked] = runs(folder, STUDY, "*/naive/*")
    assert asked.instance.content()[0].capacity == 12
    [free] = naive_runs(folder, 'files = ["*.json"]\ncapacity = false')
    assert free.instance.content()[0].capacity is None
    assert free.key == asked.key


def test_a_capacity_that_is_given_is_asked_for_and_part_of_the_name(folder: Path) -> None:
    [asked] = naive_runs(folder, 'files = ["*.json"]\ncapacity = 11')
    assert asked.instance.name == asked.instance.content()[0].name == "pair:capacity=11"
    assert asked.instance.content()[0].capacity == asked.instance.question.capacity == 11
    [of_catalogue] = naive_runs(folder, 'names = ["tiny-bert"]\ncapacity = 7')
    assert of_catalogue.instance.question.capacity == 7


@pytest.mark.parametrize("name", ["A.1.12.csv", "A.12.json", "A.12.json.gz"])
def test_a_capacity_is_found_in_the_name_of_a_file(folder: Path, name: str) -> None:
    if name.endswith("csv"):
        write_lifetimes_csv(folder / name)
    else:
        write_problem(Problem([4], [0], [2]), folder / name)
    [asked] = naive_runs(folder, 'files = ["A.*"]\ncapacity = "name"')
    assert asked.instance.name.endswith(":capacity=12")
    assert asked.instance.question.capacity == 12


def test_a_name_without_a_capacity_is_refused(folder: Path) -> None:
    with pytest.raises(
        GaplessError, match=r"^instance pair: a capacity .* such as A\.1048576\.csv"
    ):
        naive_runs(folder, 'files = ["*.json"]\ncapacity = "name"')


def test_each_variation_is_made_with_each_seed_and_once_where_it_draws_none(folder: Path) -> None:
    varied = 'files = ["*.json"]\nvariations = ["mirrored", "scaled"]\nseeds = [1, 2]'
    found = [run.instance for run in naive_runs(folder, varied)]
    assert [instance.name for instance in found] == [
        "pair:variation=mirrored",
        "pair:variation=scaled:seed=1",
        "pair:variation=scaled:seed=2",
    ]
    mirrored, *_ = (instance.content()[0] for instance in found)
    assert mirrored.name == "pair:variation=mirrored"
    assert (mirrored.start.tolist(), mirrored.end.tolist()) == ([1, 0], [3, 2])
    for instance in found:
        assert instance.family == "pair"
        problem, _ = instance.content()
        # What the capacity of the file is to its sizes, that of the variant is to its own.
        assert problem.capacity == instance.question.capacity == 12 * problem.size.min() / 4


def test_a_variant_that_could_not_be_made_is_one_line(folder: Path) -> None:
    run, *_ = naive_runs(folder, 'names = ["bert"]\nvariations = ["mirrored"]')
    with pytest.raises(GaplessError, match="instance bert: to be varied, sizes and lifetimes"):
        _ = run.asked


def test_two_grids_with_the_same_run_make_it_once(folder: Path) -> None:
    grid = STUDY.partition("[[grid]]")[2]
    assert len(runs(folder, f"{STUDY}[[grid]]{grid}")) == len(runs(folder))


def test_two_files_of_one_name_are_two_runs(folder: Path) -> None:
    (folder / "other").mkdir()
    shutil.copy(folder / "pair.json", folder / "other")
    with pytest.raises(GaplessError, match=r"under unlike files, .*pair.json and .*pair.json"):
        runs(folder, STUDY.replace('"*.json"', '"*.json", "other/*.json"'))
    same = STUDY.replace('"*.json"', '"*.json", "./*.json"')
    assert len(runs(folder, same)) == len(runs(folder))


def test_refuses_two_grids_that_contradict_each_other(folder: Path) -> None:
    grid = STUDY.partition("[[grid]]")[2]
    with pytest.raises(GaplessError, match=r"two grids ask for pair/naive.* under unlike limits"):
        runs(folder, f"{STUDY}[[grid]]\nseconds = 9{grid}")
    with pytest.raises(
        GaplessError, match=r"two grids ask for pair/naive.* under unlike capacities"
    ):
        runs(folder, f"{STUDY}[[grid]]{grid}\ncapacity = false")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"naive"', '"navie"', "no planner matches 'navie'; did you mean 'naive'"),
        ('"naive"', '"naive:x=1"', "has no parameter 'x'"),
        ("*.json", "none.json", "an instance file is needed, found none"),
        ('files = ["*.json"]', 'names = ["brt"]', "matches 'brt'; did you mean 'bert'"),
        ('files = ["*.json"]', "least_tensors = 99999999", "meets every condition"),
        (
            'files = ["*.json"]',
            'family = "random-lifetimes"\nparameters = { tensor = 3 }',
            "has no parameter 'tensor'; did you mean 'tensors'",
        ),
    ],
)
def test_an_unknown_name_is_one_line(folder: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(GaplessError) as error:
        runs(folder, STUDY.replace(old, new))
    assert message in str(error.value)


def test_a_family_that_lacks_a_parameter_says_which(folder: Path) -> None:
    with pytest.raises(GaplessError, match=r"random_lifetimes.*'tensors'"):
        _ = naive_runs(folder, 'family = "random-lifetimes"')[0].asked


def test_a_key_that_nothing_matches_is_refused(folder: Path) -> None:
    with pytest.raises(GaplessError, match="--only: no run of own matches pear/"):
        runs(folder, STUDY, "pear/*")


def test_a_catalogue_file_of_another_content_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run] = naive_runs(folder, 'names = ["bert"]')
    problem = json.loads((folder / "pair.json").read_text())
    (folder / "bert.json").write_text(json.dumps(problem))
    monkeypatch.setattr("instances.catalogue.instance_folders.FOLDER", folder)
    with pytest.raises(GaplessError, match="another one than the catalogue has"):
        run.instance.content()


def test_nodes_are_dealt_to_streams_of_each_length(folder: Path) -> None:
    many, few = naive_runs(folder, 'names = ["tiny-bert"]\nnodes_per_stream = [100, 1000000]')
    assert few.instance.name == "tiny-bert:nodes_per_stream=1000000"
    assert many.asked != few.asked
    streams = [run.instance.content()[0].stream_count for run in (many, few)]
    assert streams[0] > streams[1]


def test_nodes_are_dealt_to_streams_in_succession(folder: Path) -> None:
    choice = 'names = ["tiny-bert"]\nnodes_per_stream = [100]'
    [beside], [after] = (
        naive_runs(folder, choice + streams) for streams in ("", '\nstreams = "succession"')
    )
    assert after.instance.name == "tiny-bert:nodes_per_stream=100:streams=succession"
    pairs = [run.instance.content()[0].core.unsafe_degrees().sum() for run in (beside, after)]
    assert pairs[0] > pairs[1]


EXTRACTED = 'extract = "{model} --layers 1 --seq 8"\nparameters = { batch = [1, 2] }'


@pytest.mark.torch
def test_a_step_is_extracted_at_each_setting(folder: Path) -> None:
    small, large = naive_runs(folder, EXTRACTED.replace("{model}", "bert-base"))
    assert large.instance.name == "bert-base:batch=2"
    assert small.asked != large.asked
    sizes = [run.instance.content()[0].naive_bytes for run in (small, large)]
    assert sizes[0] < sizes[1]


def test_a_missing_model_is_one_line(folder: Path) -> None:
    run, _ = naive_runs(folder, EXTRACTED.replace("{model}", "bert-bas"))
    with pytest.raises(GaplessError, match=r"^instances\.extract bert-bas --layers 1 --seq 8"):
        run.instance.content()


OF_A_FOLDER = STUDY.replace('["*.json"]', '["{sets}/*.csv", "*.json"]').replace(
    "[[grid]]", '[folders]\nsets = "the public set"\n[[grid]]', 1
)


def test_files_are_found_in_the_folder_that_is_given(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    write_lifetimes_csv(tmp_path / "there" / "A.12.csv")
    (folder / "own.toml").write_text(OF_A_FOLDER)
    study = read_study(folder / "own.toml")
    found = runs_of(study, Folders(folder, {"sets": tmp_path / "there"}))
    assert list(dict.fromkeys(run.instance.name for run in found)) == ["A.12.csv", "pair"]
    assert found[0].instance.content()[0].tensor_count == 1


def write_lifetimes_csv(path: Path) -> None:
    path.write_text("id,lower,upper,size\n0,0,2,4\n")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "--folder sets=PATH is needed, found none: the public set"),
        ({"sets": "nowhere"}, "--folder sets=nowhere: a folder is needed, found none there"),
        ({"set": "."}, "--folder set=.: the study names no such folder; did you mean 'sets'?"),
    ],
)
def test_a_folder_that_is_wrong_is_one_line(folder: Path, given: dict[str, str], says: str) -> None:
    (folder / "own.toml").write_text(OF_A_FOLDER)
    paths = {name: Path(path) for name, path in given.items()}
    with pytest.raises(GaplessError) as refused:
        runs_of(read_study(folder / "own.toml"), Folders(folder, paths))
    assert str(refused.value) == says


@pytest.mark.parametrize(
    "change",
    [
        ("seconds = 5", "seconds = 5\nrepetitions = 1_000_000_000_000"),
        ("seconds = 5", f"seconds = 5\nseeds = {list(range(1000))}\nrepetitions = 1000"),
        (
            'files = ["*.json"]',
            f'family = "random-lifetimes"\nparameters = {{ tensors = {list(range(1000))} }}\n'
            f"seeds = {list(range(1000))}",
        ),
        (
            'files = ["*.json"]',
            f'files = ["*.json"]\niteration = "last"\nmicrobatches = {list(range(1, 9000))}\n',
        ),
        (
            'files = ["*.json"]',
            'extract = "mlp"\nparameters = { '
            + ", ".join(f"p{n} = {['x' * 40 + str(m) for m in range(9)]}" for n in range(20))
            + " }",
        ),
    ],
    ids=["repetitions", "seeds", "family", "microbatches", "extract"],
)
def test_more_runs_than_a_runner_can_hold_are_refused(
    folder: Path, change: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.study.planned_runs.MOST_RUNS", 2000)
    with pytest.raises(GaplessError, match=r"at most 2,000 runs|at most 1000 characters"):
        runs(folder, STUDY.replace(*change))


@pytest.mark.parametrize("name", studies())
def test_a_study_asks_a_question_and_plans_runs(name: str, tmp_path: Path) -> None:
    study = find_study(name)
    assert study.question.endswith("?")
    if study.training:
        assert trained_programs(study.training)
    else:
        assert runs_of(study, made_up_folders(study, tmp_path))


def made_up_folders(study: Study, within: Path) -> Folders:
    """Return folders in which the files that a study names are there, and empty."""
    folders = Folders(FOLDER, {name: within / name for name in study.folders})
    for folder in folders.given.values():
        folder.mkdir()
    for grid in study.grids:
        for choice in grid.instances:
            patterns = choice.patterns if isinstance(choice, FileChoice) else ()
            for folder_name, pattern in patterns:
                if folder_name is not None:
                    name = re.sub(r"\[(.).*?\]", r"\1", re.sub(r"[*?]", "1048576", pattern))
                    (folders.of(folder_name) / name).touch()
    return folders


@pytest.mark.parametrize("name", studies())
def test_a_study_has_words_for_its_page(name: str) -> None:
    words = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert words.startswith("# ")
    assert "{made-on}" in words
    # Alone, or in the command that makes the page.
    assert re.search(rf"`[^`\n]*\b{name}`", words)


def test_nothing_in_the_regression_set_is_limited_by_time() -> None:
    study = find_study("regression")
    assert not study.timed
    for grid in study.grids:
        assert grid.limits.budget_seconds is None
        assert grid.limits.node_limit is not None
