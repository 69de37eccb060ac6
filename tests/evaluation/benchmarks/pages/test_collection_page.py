"""The page of the collection: the paper's rows beside ours, and every instance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.benchmarks.pages import collection_page
from evaluation.benchmarks.published.paper_networks import PAPER_NETWORKS
from planners import GaplessError, Graph, Problem, write_problem

# Two tensors that meet and one that may share with the first.
SIZE, START, END = [300, 100, 200], [0, 1, 3], [2, 4, 5]


def test_a_network_of_the_paper_stands_beside_ours(
    tmp_path: Path, main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    ours = tmp_path / "resnet-50.json.gz"
    write_problem(Problem(SIZE, START, END, name="another"), ours)
    other = tmp_path / "other.json"
    write_problem(Problem([1], [0], [1], name="other"), other)
    output = tmp_path / "page.md"
    assert main("collection", ours, other, "--time-limit", 1, "-o", output) == 0
    page = output.read_text()
    assert page == capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    paper = next(row for row in rows if row[:2] == ["ResNet-50", "paper"])
    assert paper[2:8] == ["~1,500", "", "3.3598", "1.4056", "1.4132", "0.5407%"]
    assert rows[rows.index(paper) + 1][1:4] == ["ours", "3", "0"]
    last = next(row for row in rows if row[:1] == ["resnet-50"])
    assert last[4:7] == ["0.001", "0.000", "lifetime"]
    assert last[-1] == "optimal"
    assert "All 34 plans are valid; `auto` proves 2 of 2 optimal" in page
    assert "BERT-large" not in page


def test_like_stands_beside_like(
    tmp_path: Path, main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    # Two nodes on two streams that nothing orders: one tensor is alive at a time in the global
    # order, but no plan is below both. The paper knows the first of these bounds alone.
    nodes = Graph(op=["a", "b"], stream=[0, 1], producer=[0, 1], consumers=[[], []])
    ours = tmp_path / "resnet-50.json"
    write_problem(Problem([300_000, 100_000], graph=nodes), ours)
    assert main("collection", ours, "--time-limit", 1) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    header = next(row for row in rows if row[:1] == ["network"])
    shown = {
        row[1]: dict(zip(header, row, strict=True)) for row in rows if row[:1] == ["ResNet-50"]
    }
    assert shown["ours"]["lifetime bound (GB)"] == "0.0003"
    assert shown["ours"]["gap to lifetime bound"] == "33.3333%"
    assert shown["ours"]["gap to best bound"] == "0 %"
    assert shown["paper"]["gap to lifetime bound"] == "0.5407%"
    assert shown["paper"]["gap to best bound"] == ""


def test_an_invalid_plan_ends_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write_problem(Problem(SIZE, START, END), path)
    honest = collection_page.compare_planners

    def lying(problem: Problem, *arguments: object) -> object:
        answer = honest(problem, *arguments)  # type: ignore[arg-type]
        object.__setattr__(answer.rows[0].result, "status", collection_page.Status.INVALID)
        return answer

    monkeypatch.setattr(collection_page, "compare_planners", lying)
    with pytest.raises(GaplessError, match=r"one\.json: .* is invalid"):
        collection_page.collection_page([path], "it", 1.0)


def test_every_network_of_the_paper_has_one_instance() -> None:
    assert len({network.instance for network in PAPER_NETWORKS}) == len(PAPER_NETWORKS) == 10
