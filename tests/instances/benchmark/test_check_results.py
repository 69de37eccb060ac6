"""The checker beside the benchmark: it needs only NumPy, and judges as the referee does."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.benchmark import check_results
from instances.benchmark.kit import CHECKER, write_kit
from instances.catalogue.catalogue_file import read_catalogue
from planners import Plan, Problem, Safety, place
from planners.files.problem_file import problem_to_fields
from planners.referee.naive import find_violation
from planners.testing.random_problems import SOLVABLE, random_problem
from tests.instances.benchmark.small_collection import (
    TOY_BEST,
    TOY_NAIVE,
    collection,
    result,
    toy_result,
    write_collection,
    write_endless,
    write_results,
)
from tests.instances.benchmark.test_update_by_results import MISTAKES, REFUSED
from tests.planners.referee.test_referees import corrupt

# Lets NumPy and the standard library be imported, and nothing else; the output has few letters.
ONLY_NUMPY = """
import runpy, sys
allowed = sys.stdlib_module_names | {"numpy"}
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
sys.argv = sys.argv[1:]
sys.stdout.reconfigure(encoding="ascii")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    catalogue = write_collection(tmp_path)
    entries = read_catalogue(catalogue).values()
    write_kit(entries, [tmp_path, tmp_path / "theirs"], tmp_path / "kit")
    return tmp_path / "kit"


def check(kit: Path, *lines: Any, folder: bool = False) -> tuple[int, list[str]]:
    """Run the checker of the folder on a results file; return its exit status and its lines."""
    results = write_results(kit.parent / "results.jsonl", *lines)
    command = [sys.executable, "-I", "-c", ONLY_NUMPY, str(kit / CHECKER.name), str(results)]
    done = subprocess.run(
        [*command, *[str(kit)] * folder],
        capture_output=True, text=True, check=False, cwd=kit.parent,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def judged(problem: Problem, plan: Plan) -> str | None:
    fields = problem_to_fields(problem)
    try:
        found = check_results.peak_of(fields, plan.offsets.tolist())
    except check_results.RefusedError as error:
        return str(error)
    return None if plan.peak == found else f"the peak is {found}"


@pytest.mark.parametrize("safety", Safety)
@given(rng=st.randoms(use_true_random=False))
def test_it_judges_as_the_referee_does(rng: Random, safety: Safety) -> None:
    problem = random_problem(rng, safety, (0, 12), features=SOLVABLE)
    plan = place(problem)
    assert judged(problem, plan) is None
    for _ in range(4):
        plan = corrupt(rng, problem, plan)
        ours, theirs = judged(problem, plan), find_violation(problem, plan)
        assert (ours is None) == (theirs is None), (ours, theirs)


def test_it_imports_numpy_and_the_standard_library() -> None:
    tree = ast.parse(CHECKER.read_text(encoding="utf-8"))
    names = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    packages = {name.partition(".")[0] for name in names}
    assert packages - sys.stdlib_module_names == {"numpy"}


def test_good_plans_of_every_kind_are_valid(kit: Path) -> None:
    lines = [
        result(name, problem, place(problem).offsets.tolist())
        for name, problem in collection().items()
    ]
    status, said = check(kit, *lines)
    assert status == 0
    assert said == [
        f"line {number}: {line['instance']}: valid, {line['peak']} bytes; "
        f"{'improves' if line['instance'] == 'toy' else 'equals'} the best known "
        f"{10 if line['instance'] == 'toy' else line['peak']}"
        for number, line in enumerate(lines, 1)
    ]


def test_an_instance_of_others_is_checked_too(kit: Path) -> None:
    assert (kit / "json" / "foreign.json").exists()
    fields = json.loads((kit / "json" / "foreign.json").read_text())
    problem = Problem(fields["size"], fields["start"], fields["end"])
    line = result("foreign", problem, place(problem).offsets.tolist())
    assert check(kit, line, folder=True)[0] == 0


def test_plans_may_lie_in_files_of_their_own(kit: Path) -> None:
    (kit.parent / "list.json").write_text(json.dumps(TOY_BEST))
    (kit.parent / "plan.json").write_text(json.dumps({"offsets": TOY_BEST, "more": 1}))
    lines = [toy_result(TOY_BEST, offsets=None, plan=name) for name in ("list.json", "plan.json")]
    assert check(kit, *lines)[0] == 0


WRONG = [
    ([], "an object is needed"),
    (toy_result(TOY_BEST, peak=None), "field peak: missing"),
    (toy_result(TOY_BEST, speed=1), "field 'speed': unknown"),
    (toy_result(TOY_BEST, plan="toy.json"), "one of offsets and plan is needed"),
    (toy_result(TOY_BEST, offsets=None), "one of offsets and plan is needed"),
    (toy_result(TOY_BEST, planner=3), "field planner: the value 3 is wrong"),
    (toy_result(TOY_BEST, planner=81 * "é"), r"field planner: the value '\xe9"),
    (toy_result(TOY_BEST, peak=6.0), "field peak: the value 6.0 is wrong"),
    (toy_result(TOY_BEST, peak=True), "field peak: the value True is wrong"),
    (toy_result(TOY_BEST, lower_bound=-1), "field lower_bound: the value -1 is wrong"),
    (toy_result(TOY_BEST, instance="tay"), "list.json has no 'tay'"),
    (toy_result(TOY_BEST, digest="sha256:0"), "field digest: sha256:"),
    (toy_result(TOY_BEST, offsets=None, plan="none.json"), "it cannot be read"),
    (toy_result(TOY_BEST, offsets={}), "field offsets: the value {} is wrong"),
    (toy_result(TOY_BEST, offsets=[0, 0]), "offsets: 3 are needed, found 2"),
    (toy_result(TOY_BEST, offsets=[0, 0, -2]), "tensor 2: an offset of at least 0 is needed"),
    (toy_result(TOY_BEST, offsets=[0, 0, "4"]), "tensor 2: an offset of at least 0 is needed"),
    (toy_result(TOY_BEST, offsets=[0, 0, 1 << 70]), "tensor 2: an offset of at least 0"),
    (toy_result(TOY_BEST, peak=7), "peak: the largest offset + size is 6, found 7"),
    (toy_result([1, 0, 6]), "tensor 0: an offset that 2 divides is needed"),
    (toy_result([0, 0, 2]), "unsafe tensors share bytes: 0 and 2"),
    (toy_result(TOY_BEST, lower_bound=7), "lower_bound: toy has a valid plan of 6"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), WRONG, ids=[reason for _, reason in WRONG])
def test_each_wrong_line_is_refused_on_one_line(kit: Path, line: Any, reason: str) -> None:
    status, said = check(kit, toy_result(TOY_NAIVE), line)
    assert status == 1
    assert len(said) == 2
    assert said[0] == "line 1: toy: valid, 10 bytes; equals the best known 10"
    assert said[1].startswith("line 2: refused: ")
    assert reason in said[1]


ENDLESS = {"pipe.jsonl": "a plain file", "device.jsonl": "a plain file", "unfolds.jsonl": "at most"}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_file_without_an_end_is_refused(kit: Path, name: str) -> None:
    folder = write_endless(kit.parent)
    status, said = check(kit, toy_result(TOY_BEST, offsets=None, plan=name))
    assert (status, len(said)) == (1, 1)
    assert f"line 1: refused: {folder / name}: {ENDLESS[name]}" in said[0]
    assert check_results.main([str(folder / name), str(kit)]) == 2


def test_a_file_of_too_many_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "values.json"
    path.write_text("[" + "0," * (1 << 25) + "0]")
    with pytest.raises(check_results.RefusedError, match="at most 33554432 signs are read"):
        check_results.read_json(path)


def test_a_plan_that_many_lines_name_is_read_once(
    kit: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (kit.parent / "plan.json").write_text(json.dumps(TOY_BEST))
    named = toy_result(TOY_BEST, offsets=None, plan="plan.json")
    lines = [toy_result(TOY_NAIVE), result("pins", collection()["pins"], [0, 4]), named] * 20
    results = write_results(kit.parent / "results.jsonl", *lines, named | {"peak": 7})
    read: list[Path] = []
    real = check_results.read_text
    monkeypatch.setattr(check_results, "read_text", lambda path: read.append(path) or real(path))
    assert check_results.main([str(results), str(kit)]) == 1
    assert len(read) == 5
    assert capsys.readouterr().out.count("improves") == 20


def test_it_refuses_what_update_refuses(kit: Path) -> None:
    lines = [line for line, _ in [*REFUSED, *MISTAKES] if line != "\n"]
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    results = kit.parent / "results.jsonl"
    results.write_text("\n".join(texts))
    out = io.StringIO()
    with redirect_stdout(out):
        assert check_results.main([str(results), str(kit)]) == 1
    said = out.getvalue().splitlines()
    assert len(said) == len(lines) > 25
    assert [line for line in said if ": refused: " not in line] == []


def test_a_bound_is_held_against_every_plan_of_the_file(kit: Path) -> None:
    status, said = check(kit, toy_result(TOY_NAIVE, lower_bound=7), toy_result(TOY_BEST))
    assert status == 1
    assert said[0] == "line 1: refused: field lower_bound: toy has a valid plan of 6"


def test_pins_chains_and_gaps_are_kept(kit: Path) -> None:
    problems = collection()
    graph = place(problems["graph"]).offsets.tolist()
    second = problems["graph"].contiguous[0][1]
    moved = [1 << 40 if tensor == second else at for tensor, at in enumerate(graph)]
    _, said = check(
        kit,
        result("pins", problems["pins"], [0, 4]),
        result("gaps", problems["gaps"], [0, 0]),
        result("graph", problems["graph"], moved),
        result("pairs", problems["pairs"], [0, 3, 3]),
    )
    assert "line 1: refused: tensor 1: it is pinned to 0" in said[0]
    assert said[1].startswith("line 2: gaps: valid")
    assert f"tensor {second}: it has to start where tensor" in said[2]
    assert "unsafe tensors share bytes: 0 and 1" in said[3]


def test_refuses_fields_that_it_cannot_judge(kit: Path) -> None:
    path = kit / "json" / "toy.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"windows": []}))
    assert "cannot judge the field windows" in check(kit, toy_result(TOY_BEST))[1][0]
    path.write_text(json.dumps(fields | {"version": 2}))
    assert "cannot judge ('gapless-problem', 2)" in check(kit, toy_result(TOY_BEST))[1][0]
    path.write_text(json.dumps(fields | {"size": [4, 4, 1]}))
    assert "a file of the digest" in check(kit, toy_result(TOY_BEST))[1][0]
    path.unlink()
    assert "it cannot be read" in check(kit, toy_result(TOY_BEST))[1][0]


def test_without_a_list_it_ends_with_2(kit: Path) -> None:
    results = write_results(kit.parent / "results.jsonl", toy_result(TOY_BEST))
    assert check_results.main([str(results), str(kit / "json")]) == 2
    assert check_results.main([str(kit / "none.jsonl"), str(kit)]) == 2
    (kit / "none.jsonl").write_text("\n \n")
    assert check_results.main([str(kit / "none.jsonl"), str(kit)]) == 2
    with pytest.raises(SystemExit, match="Check a results file"):
        check_results.main([])
