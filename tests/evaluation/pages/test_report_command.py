"""``python -m evaluation.study report``: files in, pages out, and one line for what is wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from evaluation.pages import written_report
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.slots import fill
from evaluation.pages.written_report import write_report
from evaluation.study.__main__ import app
from evaluation.study.record import Record, RunStatus
from planners.files.problem_file import problem_digest, write_problem
from planners.model.problem import Problem
from tests.command_line import run_command
from tests.evaluation.study.made_up_records import record
from tests.without_packages import without_extras

report = partial(run_command, app, "report")
STUDY = """
question = "What?"
seconds = 5

[[grid]]
planners = ["naive"]
instances = [{ names = ["bert"] }]

[page.tables.own]
by = ["planner"]
columns = [["planner", "{planner}"]]
"""


def kept(records: Sequence[Record], path: Path) -> Path:
    path.write_text("".join(f"{its.to_json()}\n" for its in records), encoding="utf-8")
    return path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    records = [
        record("one", "greedy", 15, incumbents=((0.1, 18), (0.2, 15))),
        record("one", "exact", 12, status=RunStatus.OPTIMAL, lower_bound=12, certificate="search"),
        record("a|b*<i>", "greedy", 12, tensors=50),
        record("a|b*<i>", "exact", None, status=RunStatus.CRASHED, reason="signal 11"),
        record("one", "caching", 20, kind="online", allocated=15),
    ]
    return kept(records, tmp_path / "made-up.jsonl")


def test_markdown_has_every_table_and_figure(results: Path, tmp_path: Path) -> None:
    answer = report(results, "-o", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    text = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    row = re.search(r"\| one +\| +5 \| greedy .*", text)
    assert row is not None
    assert [cell.strip() for cell in row[0].split("|")[4:-1]] == [
        "feasible", "15", "25.000 %", "25.000 %", "25.000 %", "500 ms",
    ]  # fmt: skip
    assert re.search(r"\| exact +\| crashed +\| +1 \| signal 11", text)
    assert re.search(r"\| one +\| caching +\| +20 B \| +20 \| +75.0 % \| +12 B", text)
    assert r"a\|b\*\<i>" in text
    shown = re.findall(r"\]\((images/made-up-[a-z]+\.png)\)", text)
    assert len(shown) == 3
    assert all((tmp_path / "out" / file).stat().st_size > 5000 for file in shown)
    for file in shown:
        for suffix, mark in ((".svg", b"<svg"), (".pdf", b"%PDF")):
            assert mark in (tmp_path / "out" / file).with_suffix(suffix).read_bytes()
    assert "5 runs of 2 instances" in text


def test_a_planner_with_fewer_plans_is_not_ahead_by_its_small_gaps() -> None:
    records = [
        record("one", "whole", 10), record("one", "partial", 10), record("one", "run-on-less", 10),
        record("two", "whole", 21), record("two", "partial", None), record("two", "other", 20),
    ]  # fmt: skip
    page = fill("{planner-table}{performance-profile}", PageMaterial("x", records), "x")
    assert re.search(r"-:\|\n\| \*\*whole\*\* .*best most often: whole", page, re.DOTALL)


def test_the_page_holds_its_pictures_and_loads_nothing(results: Path, tmp_path: Path) -> None:
    assert report(results, "-o", tmp_path / "out").exit_code == 0
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert page.count('<img src="data:image/png;base64,') == 3
    assert "default-src 'none'" in page
    assert "<i>" not in page
    assert "a|b*&lt;i&gt;" in page


def test_the_name_of_a_study_is_neither_path_nor_tag(tmp_path: Path) -> None:
    records = [record("one", "greedy", study="../<script>x")]
    answer = report(kept(records, tmp_path / "r.jsonl"), "-o", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    assert [path.name for path in sorted((tmp_path / "out/images").iterdir())] == [
        f"-script-x-{name}.{suffix}" for name in ("profile", "time")
        for suffix in ("pdf", "png", "svg")
    ]  # fmt: skip
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "<h1>../&lt;script&gt;x</h1>" in page
    assert "<script>x" not in page


def test_a_question_is_escaped_on_the_page(tmp_path: Path) -> None:
    material = PageMaterial("made-up", [record("one", "greedy")], {"question": "Is <b>it</b> so?"})
    _, page = write_report(material, {}, tmp_path)
    assert "Is &lt;b&gt;it&lt;/b&gt; so?" in page.read_text(encoding="utf-8")


def test_a_map_is_of_the_instance_of_the_records(tmp_path: Path) -> None:
    problem = Problem(size=[4, 2], start=[0, 1], end=[4, 7], name="pair")
    write_problem(problem, tmp_path / "pair.json")
    of_pair = {"instance_digest": problem_digest(problem), "bounds": {"lifetime": 6}}
    results = kept(
        [
            record("pair", "naive", 6, **of_pair),
            record("pair", "greedy-size-first", 7, **of_pair),
            record("pair", "pressure", 6, wall_seconds=1e3, **of_pair),
        ],
        tmp_path / "results.jsonl",
    )  # fmt: skip
    answer = report(results, "-o", tmp_path / "out", "--map", tmp_path / "pair.json")
    assert answer.exit_code == 0, answer.output
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert '[["0","naive"],["1","greedy-size-first"]]' in page
    assert "greedy-size-first: a peak of 6 this time, where the record has 7" in page
    assert "not made again, for it took over 20 s: pressure" in page


def test_a_map_takes_the_planners_of_plugins(tmp_path: Path) -> None:
    problem = Problem(size=[4, 2], start=[0, 1], end=[4, 7], name="pair")
    write_problem(problem, tmp_path / "pair.json")
    of_pair = {"instance_digest": problem_digest(problem), "bounds": {"lifetime": 6}}
    results = kept([record("pair", "theirs-of-a-map", 6, **of_pair)], tmp_path / "results.jsonl")
    plugin = tmp_path / "theirs.py"
    plugin.write_text(
        "import planners\n"
        "@planners.register('theirs-of-a-map')\n"
        "def theirs(problem, budget):\n"
        "    print('noise')\n"
        "    return planners.place(problem)\n"
    )
    words = (results, "-o", tmp_path / "out", "--map", tmp_path / "pair.json")
    answer = report(*words)
    assert answer.exit_code == 2
    assert "no planner is called 'theirs-of-a-map'" in answer.stderr
    assert "--plugin names a file that registers planners" in answer.stderr
    answer = report(*words, "--plugin", plugin)
    assert answer.exit_code == 0, answer.output
    assert "noise" not in answer.stdout
    assert '"theirs-of-a-map"' in (tmp_path / "out/report.html").read_text(encoding="utf-8")


def test_only_unproven_instances_are_open(results: Path, tmp_path: Path) -> None:
    assert report(results, "-o", tmp_path / "out").exit_code == 0
    text = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    section = text.split("## What is open")[1].split("\n## ")[0]
    assert "Proven: 1 of 2 instances." in section
    assert r"| a\|b\*\<i>" in section
    assert "| one " not in section


def test_without_bokeh_there_is_markdown(results: Path, tmp_path: Path) -> None:
    answer = without_extras("study", "report", str(results), "-o", str(tmp_path / "out"))
    assert answer.returncode == 0, answer.stderr
    assert [path.name for path in (tmp_path / "out").glob("report.*")] == ["report.md"]
    assert answer.stderr == (
        "warning: report.html is left out: No module named 'jinja2'; install with: pip install "
        "'gapless[report]'\n"
    )
    map_of = without_extras(
        "study", "report", str(results), "-o", str(tmp_path / "o"), "--map", "x.json"
    )
    assert (map_of.returncode, map_of.stdout) == (2, "")
    assert map_of.stderr.startswith("error: No module named 'bokeh'; install with: ")


def test_a_map_of_another_instance_is_refused(results: Path, tmp_path: Path) -> None:
    write_problem(Problem(size=[4], start=[0], end=[4]), tmp_path / "other.json")
    answer = report(results, "-o", tmp_path / "out", "--map", tmp_path / "other.json")
    assert answer.exit_code == 2
    assert "an instance of the records is needed, found one of another digest" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["of Gapless", "beside its records", "the working folder"])
def test_the_words_of_a_study_are_filled(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    studies, docs = tmp_path / "studies", tmp_path / "docs"
    for folder in (studies, docs / "studies", docs / "images"):
        folder.mkdir(parents=True)
    if place == "of Gapless":
        monkeypatch.setattr(written_report, "FOLDER", studies)
    elif place == "beside its records":
        results = results.rename(studies / results.name)
    else:
        monkeypatch.chdir(studies)
    (studies / "made-up.toml").write_text(STUDY)
    (studies / "made-up.md").write_text("# Made up\n\n{run-counts}\n\n{time-figure}\n\n{own}\n")
    answer = report(results, "--page", docs / "studies/made-up.md")
    assert answer.exit_code == 0, answer.output
    text = (docs / "studies/made-up.md").read_text(encoding="utf-8")
    assert text.startswith("# Made up\n\n5 runs of ")
    assert "](../images/made-up-time.png)" in text
    assert re.search(r"\| planner +\|", text)
    assert [path.name for path in (docs / "images").iterdir()] == ["made-up-time.png"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["results.jsonl"],
            "--page FILE.md for a study's page: one of the two is needed, found nei",
        ),
        (["empty.jsonl", "-o", "out"], "a record is needed, found none"),
        (["torn.jsonl", "-o", "out"], "torn.jsonl:1: the line is not a whole JSON text"),
        (["missing.jsonl"], "error: missing.jsonl: No such file or directory"),
        (["results.jsonl", "--page", "x.md", "--map", "y"], "maps are part of a report"),
        (["results.jsonl", "--page", "x.md"], "file of one study is needed, made-up.toml, beside"),
        (["results.jsonl", "other.jsonl", "--page", "x.md"], "file of one study is needed"),
        (["other.jsonl", "--page", "x.md"], "other.md is needed beside other.toml"),
        (["long.jsonl", "--page", "x.md"], "file of one study is needed"),
    ],
)
def test_each_fault_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    kept([record("one", "greedy")], tmp_path / "results.jsonl")
    kept([record("one", "greedy", study="other")], tmp_path / "other.jsonl")
    (tmp_path / "other.toml").write_text(STUDY)
    kept([record("one", "greedy", study="../" + "long" * 99)], tmp_path / "long.jsonl")
    kept([], tmp_path / "empty.jsonl")
    (tmp_path / "torn.jsonl").write_text('{"schema"\n{}\n')
    answer = report(*words)
    assert answer.exit_code == 2
    assert line in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_records_that_contradict_each_other_make_no_page(tmp_path: Path) -> None:
    records = [record("one", "greedy", 12), record("one", "liar", None, lower_bound=13)]
    answer = report(kept(records, tmp_path / "r.jsonl"), "-o", tmp_path / "out")
    assert answer.exit_code == 2
    assert "no plan is below a lower bound" in answer.stderr
    assert not (tmp_path / "out").exists()
