"""What ``--explain`` prints, and the account of bubbles behind it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given

from planners import Problem, write_problem
from planners.homosize import __main__ as command
from planners.homosize.explain import MOST_ROWS, explain
from planners.homosize.paper_variant import PaperVariant
from planners.homosize.requests import static_requests
from planners.homosize.synthesis import fragmentation_of, synthesize
from tests.planners.homosize.published import Request, columns, requests

# A group of two activations, into which a gradient is fused, and a transient beside it.
PROBLEM = Problem(
    size=[4, 4, 2, 3],
    start=[0, 0, 5, 0],
    end=[10, 5, 10, 1],
    phase_start=[0, 0, 1, 0],
    phase_end=[1, 1, 2, 0],
    name="toy",
)
EXPLAINED = """\
HomoPhase groups: 2 of 3 requests; 1 requests stay single
  phases  requests  bytes    steps  product
  0 to 1         2    8 B  0 to 10   75.00%
  1 to 2         1    2 B  5 to 10  100.00%
Fusion of adjacent groups: 1 of 1 trials accepted
    host   guest  bytes  and bytes  fused  product before   after  accepted
  0 to 1  1 to 2    8 B        2 B    8 B          77.78%  87.50%       yes
HomoSize layers: 2 for 2 groups and single requests, of which 0 lie in layers of larger ones
  size  units  inserted  layers
   8 B      1         0       1
   3 B      1         0       1
Of 11 B, on average over time: 7 B used, 1 B in bubbles within groups, 3 B in bubbles within layers
"""


def test_every_stage_is_shown() -> None:
    assert explain(synthesize(static_requests(PROBLEM), PaperVariant())) == EXPLAINED


def test_long_tables_are_cut() -> None:
    drawn = [Request(1 + phase, phase, phase + 1, phase, phase + 1) for phase in range(30)]
    text = explain(synthesize(columns(drawn), PaperVariant(fusion=False)))
    assert f"  ... and {30 - MOST_ROWS} more" in text


def test_nothing_is_explained_too() -> None:
    text = explain(synthesize(columns([]), PaperVariant()))
    assert text.startswith("HomoPhase groups: 0 of 0 requests")


@given(drawn=requests(least=0, most=25))
def test_bubbles_add_up(drawn: list[Request]) -> None:
    synthesis = synthesize(columns(drawn), PaperVariant())
    bubbles = fragmentation_of(synthesis)
    assert bubbles.used == sum(m.s * (m.te + 1 - m.ts) for m in drawn)
    assert bubbles.used + bubbles.in_groups + bubbles.in_layers == bubbles.reserved
    assert bubbles.reserved == synthesis.plan.peak * bubbles.steps
    assert min(bubbles.in_groups, bubbles.in_layers) >= 0


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["homosize", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return int(ended.value.code or 0)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.json"
    write_problem(PROBLEM, path)
    return path


def test_the_command_shows_stages_and_plan(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, toy, "--variant", "paper", "--explain") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(EXPLAINED)
    assert "toy: optimal, peak 11 B (11), lifetime bound 11, memory efficiency 100.000%" in printed
    assert "groups 2, fusions 1, layers 2, inserted 0" in printed


def test_the_ablations_are_options(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(monkeypatch, toy, "--variant", "paper", "--no-fusion")
    assert "groups 2, fusions 0" in capsys.readouterr().out
    run_command(monkeypatch, toy, "--variant", "paper", "--no-phases")
    assert "groups 0, fusions 0" in capsys.readouterr().out


def test_a_mistake_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chain.json"
    write_problem(Problem([1, 2], [0, 0], [1, 1], contiguous=[(0, 1)]), path)
    assert run_command(monkeypatch, path, "--variant", "paper") == 2
    assert capsys.readouterr().err == (
        f"error: {path}: contiguous chains: groups stack requests one by one\n"
    )
    assert run_command(monkeypatch, path, "--explain") == 2
    assert capsys.readouterr().err.startswith("error: --explain: the published stages")
    assert run_command(monkeypatch, path) == 0
