"""The command: tables, JSON, files, exit statuses, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typer.testing import Result

from instances.__main__ import app
from instances.extract.__main__ import extract_model
from instances.synthetic import repeatable_step
from planners import Problem, read_problem, write_problem
from planners.recompute import choose_planners
from planners.recompute.recompute_command import RecomputeOptions
from tests.command_line import run_command

MANY = "greedy,knapsack,local-search,cp-sat,keep-all"


@pytest.fixture
def step(tmp_path: Path) -> Path:
    path = tmp_path / "step.json"
    write_problem(repeatable_step(8, operations=2, seed=0), path)
    return path


def recompute(*arguments: str | Path) -> Result:
    return run_command(app, "recompute", *arguments)


def test_one_limit_is_a_table_with_the_fastest_first(step: Path) -> None:
    done = recompute(step, "--limit", "60%", "--planners", MANY, "--time-limit", "20")
    assert done.exit_code == 0, done.output
    above, limit, *table = done.stdout.splitlines()
    assert above.startswith("repeatable-step-8-2-2: 54 nodes, 42 tensors; peak 278.0 KiB")
    assert "16 units may run again" in above
    assert limit.startswith("limit 166.8 KiB (170,803), 60.0% of the peak: at least 8.223 %")
    assert "by cp-sat" in limit
    rows = [line.split() for line in table if line.startswith("* ")]
    assert {row[1] for row in rows} == {"greedy", "local-search", "cp-sat"}
    assert any("keep-all" in line and "no_plan_found" in line for line in table)


def test_a_range_is_a_line_for_each_limit(step: Path) -> None:
    done = recompute(
        step, "--limit", "60%..100%", "--points", "3", "--planners", "greedy,keep-all",
        "--time-limit", "2",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    shares = [line.split()[2] for line in done.stdout.splitlines() if "KiB " in line[:20]]
    assert shares == ["100.0%", "80.0%", "60.0%"]
    assert any(line.split()[-2:] == ["greedy", "keep-all"] for line in done.stdout.splitlines())


def test_json_has_every_number(step: Path) -> None:
    done = recompute(step, "--limit", "60%", "--planners", "cp-sat", "--json", "--offload")
    (point,) = json.loads(done.stdout)["points"]
    (result,) = point["results"]
    assert result["status"] == "unsupported"
    done = recompute(step, "--limit", "60%", "--planners", "cp-sat", "--json")
    record = json.loads(done.stdout)
    (point,) = record["points"]
    (result,) = point["results"]
    assert (record["schema"], record["device"]) == ("gapless-frontier", "h100")
    assert result["status"] == "optimal"
    assert result["peak"] <= point["limit"] == int(0.6 * record["peak_live"])
    assert result["extra_seconds"] == pytest.approx(point["least_extra_seconds"])
    assert result["runs_again"] == 5


def test_the_fastest_step_is_written_and_drawn(step: Path, tmp_path: Path) -> None:
    target, picture = tmp_path / "within.json", tmp_path / "frontier.svg"
    done = recompute(
        step, "--limit", "60%..90%", "--points", "2", "--planners", "greedy,checkpoint-blocks",
        "-o", target, "--plot", picture, "--time-limit", "2",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    given, written = read_problem(step), read_problem(target)
    assert written.tensor_count > given.tensor_count
    assert int(written.naive_bytes) > int(given.naive_bytes)
    assert "ruled out by the bound" in picture.read_text(encoding="utf-8")


OWN_STEP = """
import torch
from torch import nn
from torch.nn import functional
from instances.extract import TrainingStep

def make_step(layers: int = 3):
    network = nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(16, 64), nn.GELU(),
                                                                nn.Linear(64, 16))])
    return TrainingStep(network, torch.zeros(64, 16), torch.optim.SGD(network.parameters()),
                        loss=functional.mse_loss, targets=torch.zeros(64, 16))
"""


@pytest.mark.torch
def test_a_step_of_ones_own_is_traced_or_read_as_it_was_extracted(tmp_path: Path) -> None:
    path, extracted = tmp_path / "train.py", tmp_path / "train.json"
    path.write_text(OWN_STEP, encoding="utf-8")
    extract_model(f"{path}:make_step", extracted, set_=["layers=4"])
    options = ("--limit", "70%", "--planners", "greedy", "--json")
    answers = []
    for given in ([extracted], [f"{path}:make_step", "--set", "layers=4"]):
        done = recompute(*given, *options)
        assert done.exit_code == 0, done.output
        (point,) = json.loads(done.stdout)["points"]
        (result,) = point["results"]
        assert result["status"] == "feasible"
        assert result["runs_again"] > 0
        answers.append((point["limit"], result["peak"], result["extra_seconds"]))
    assert answers[0] == answers[1]
    other = json.loads(recompute(f"{path}:make_step", *options).stdout)
    assert other["points"][0]["limit"] < answers[0][0]
    above = recompute(f"{path}:make_step", "--limit", "100%", "--planners", "keep-all").stdout
    # Three layers, and the 65 MiB of cuBLAS on a GPU.
    persistent = 4 * 3 * (2 * 16 * 64 + 64 + 16) + (65 << 20)
    assert f"{persistent / (1 << 20):.2f} MiB of parameters, optimizer state and" in above
    assert "no function is called 'make_stop'" in recompute(f"{path}:make_stop").stderr


def test_slow_planners_run_only_if_named() -> None:
    named = {planner.name for planner in choose_planners("*")}
    assert {name for name in named if name.startswith("pytorch-partitioner")} == named - {
        planner.name for planner in choose_planners()
    }
    assert recompute("--list").stdout.count("only if it is named") == 3


@pytest.mark.parametrize(("planners", "panels", "lines"), [([], 1, 4), (["--planners", "*"], 8, 0)])
def test_the_picture_has_the_best_four_or_those_named_and_names_its_area(
    planners: list[str], panels: int, lines: int, step: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    figures: list[Figure] = []
    drawn = "evaluation.plots.limit_frontier.save_figure"
    monkeypatch.setattr(drawn, lambda figure, _path: figures.append(figure))
    done = recompute(
        step, "--limit", "60%..100%", "--points", "2", "--time-limit", "1", *planners,
        "--plot", tmp_path / "frontier.svg",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (figure,) = figures
    axes = [each for each in figure.axes if each.get_visible()]
    assert len(axes) >= panels
    assert all(each.collections for each in axes)  # the area
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names.pop() == "ruled out by the bound"
    assert len(names) == lines
    assert not lines or "local-search" in names


@pytest.mark.parametrize(("limit", "status"), [("20%", 3), ("55%", 4)])
def test_a_limit_that_is_not_met(step: Path, limit: str, status: int) -> None:
    done = recompute(step, "--limit", limit, "--planners", "keep-all", "--time-limit", "1")
    assert done.exit_code == status, done.output
    assert "no limit below 150.0 KiB (153,600) can be met, by staged-relaxation" in done.stdout


HOSTILE = """
import os, sys
from planners.recompute import LimitAnswer, register

def own(name):
    return register(name, summary='\\x1b[2Ja summary')

@own('nothing')
def nothing(question):
    return question.answer(question.step.choice())

@own('leaves')
def leaves(question):
    sys.exit(0)

@own('prints')
def prints(question):
    print('from Python')
    os.write(1, b'from below')
    return nothing(question)

@own('says-interrupted')
def says_interrupted(question):
    answer = nothing(question)
    return LimitAnswer(answer.sequence, '\\x1b[2Ja\\nreason', interrupted=True)
"""


def test_whatever_a_plugin_does_the_others_go_on(step: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(HOSTILE, encoding="utf-8")
    names = ("says-interrupted", "prints", "leaves", "nothing")
    command = [sys.executable, "-m", "instances", "recompute", str(step), "--plugin", str(plugin)]
    command += ["--limit", "100%", "--planners", ",".join(names), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (point,) = json.loads(done.stdout)["points"]
    found = {result["planner"]: result["status"] for result in point["results"]}
    assert found == {name: "invalid" if name == "leaves" else "optimal" for name in names}
    assert (done.returncode, done.stderr) == (1, "from Python\nfrom below")
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True)
    assert listed.stdout.count("  a summary\n") == 4


def test_a_plugin_cannot_take_a_name_of_ours(step: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "from planners.recompute import register\n@register('greedy', summary='')\ndef f(q): pass\n"
    )
    command = [sys.executable, "-m", "instances", "recompute", str(step), "--plugin", str(plugin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: plugin {plugin}: GaplessError: budget planner name: ")


def test_the_list_names_every_planner() -> None:
    listed = recompute("--list").stdout
    assert all(planner.name in listed for planner in choose_planners("*"))


def test_limits_as_they_are_written() -> None:
    assert RecomputeOptions(limit="3GiB").limits(10) == [3 << 30]
    assert RecomputeOptions(limit="50%,1KiB").limits(4096) == [2048, 1024]
    assert RecomputeOptions(limit="50%..100%", points=3).limits(100) == [100, 75, 50]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--limit", "120%"], "more than 0 % and at most 100 % is needed, found '120%'"),
        (["--limit", "x"], "--limit: bytes are needed"),
        (["--points", "1"], "--points: 2 to 1000 are needed for a range, found 1"),
        (["--points", "1000000000"], "--points: 2 to 1000 are needed for a range"),
        (["--planners", "gredy"], "no budget planner matches 'gredy'"),
        (["--device", "h1000"], "no device is called 'h1000'"),
        (["--set", "a=1"], "--set a=1: FILE.py:FUNCTION or FILE.py is needed with it, found"),
        (["--", "word"], "word: FILE.py:FUNCTION or FILE.py is needed with it, found"),
        (["--planners", ","], "no budget planner named; give at least one, or '*' for all"),
    ],
)
def test_refuses_wrong_options(step: Path, arguments: list[str], said: str) -> None:
    done = recompute(step, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize("offload", [[], ["--offload"]])
@pytest.mark.parametrize("limit", ["60%", "60%..100%"])
def test_a_step_that_takes_no_time(step: Path, limit: str, offload: list[str]) -> None:
    file = json.loads(step.read_text(encoding="utf-8"))
    for column in ("flops", "moved_bytes"):
        file["graph"]["work"][column] = [0] * len(file["graph"]["work"][column])
    step.write_text(json.dumps(file), encoding="utf-8")
    arguments = [step, "--limit", limit, "--planners", MANY, "--time-limit", "20", *offload]
    done = recompute(*arguments, "--plot", step.with_suffix(".svg"))
    assert done.exit_code == 0, done.output
    assert ("0 % more time" in done.stdout) == (limit == "60%")
    for point in json.loads(recompute(*arguments, "--json").stdout)["points"]:
        best = min(r["extra_seconds"] for r in point["results"] if r["extra_seconds"] is not None)
        assert best == 0 or offload


def test_a_problem_without_work_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lifetimes.json"
    write_problem(Problem([1], [0], [1], name="lifetimes"), path)
    done = recompute(path)
    assert done.exit_code == 2
    assert "a graph is needed" in done.stderr
