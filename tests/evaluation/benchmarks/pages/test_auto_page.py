"""The page on planners without parameters: what it claims of the runs that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evaluation.benchmarks.contestants.contestant_runs import ContestantRuns
from evaluation.benchmarks.pages import auto_page
from evaluation.benchmarks.writing.figure import Figure
from instances.synthetic import data_parallel_graph, training_trace
from planners import Bound, Problem, Result, Status, write_problem
from planners.model.plan import Plan, feasible


def runs_of(peak: int | None, seconds: float, lower_bound: int = 0) -> ContestantRuns:
    result = (
        Result(Status.INVALID, Plan([0], 1))
        if peak is None
        else feasible(Plan([0], peak), lower_bound, "a proof")
    )
    return ContestantRuns(result, (seconds,), (0,))


def instance_of(name: str, **runs: list[ContestantRuns]) -> auto_page.AutoInstance:
    return auto_page.AutoInstance(name, 1, Bound("lifetime", 8, np.array([0])), 12, dict(runs))


def shown(cells: Sequence[str | Figure]) -> list[str]:
    return list(map(str, cells))


def test_a_gap_is_that_of_the_worst_seed_to_the_best_bound_of_all() -> None:
    runs = instance_of(
        "x", auto=[runs_of(10, 1.0), runs_of(12, 3.0)], supermalloc=[runs_of(10, 4.0, 10)] * 2
    )
    assert shown(auto_page._contestant_cells(runs, "auto")) == ["20.0000%", "2.000 (3.000)"]
    assert shown(auto_page._contestant_cells(runs, "supermalloc"))[0] == "0 %"
    assert auto_page._ratio(runs, "supermalloc") == "2.0x"
    assert "10 (a search)" in auto_page._first_cells(runs)
    assert (runs.is_proven("auto"), runs.is_proven("supermalloc")) == (False, True)


def test_who_sits_out_or_fails_has_no_gap() -> None:
    runs = instance_of("x", auto=[runs_of(8, 1.0), runs_of(None, 1.0)])
    assert auto_page._contestant_cells(runs, "auto")[0] == "invalid"
    assert not runs.is_proven("auto")
    assert auto_page._contestant_cells(runs, "omni") == ["-", "-"]
    assert auto_page._ratio(runs, "omni") == "-"


@pytest.mark.parametrize(
    ("peak", "seconds", "reached"), [(8, 0.4, "yes"), (8, 0.6, "no"), (9, 0.4, "no")]
)
def test_an_aim_is_reached_with_a_proof_in_time(peak: int, seconds: float, reached: str) -> None:
    runs = instance_of("G_1.csv", auto=[runs_of(peak, seconds)])
    assert auto_page._reach_row("it", [runs], 0.5)[0][-1] == reached


def test_a_peer_plans_neither_graphs_nor_what_memory_has_no_room_for() -> None:
    peer = next(c for c in auto_page.FOR_FILES if c.label == auto_page.SUPERMALLOC)
    assert peer.takes(training_trace(30))
    assert not peer.takes(data_parallel_graph(2))
    many = training_trace(auto_page.MOST_FOR_SUPERMALLOC + 1)
    assert not peer.takes(many)
    assert all(c.takes(many) for c in auto_page.FOR_FILES if not c.of_peer)


def test_every_graph_can_be_made() -> None:
    names = set()
    for make, seed in auto_page.graph_sources():
        graph = make()
        assert graph.contiguous
        names.add((graph.name, seed, graph.tensor_count))
    assert len(names) == len(auto_page.graph_sources())


@pytest.mark.bench
def test_the_page_names_files_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_page, "DATA_PARALLEL", ((2, 2, 1),))
    monkeypatch.setattr(auto_page, "TRAINING", ())
    monkeypatch.setattr(auto_page, "GRAPH_SEEDS", range(1))
    path = tmp_path / "mine.json"
    write_problem(Problem([5, 4, 3], [0, 1, 2], [2, 3, 4], name="mine"), path)
    text = auto_page.auto_page([path], "the command", 1, 2.0).render()
    assert str(tmp_path) not in text
    assert "| mine.json |" in text
    assert "data-parallel-2-2-1, seed 0" in text
    assert "invalid" not in text
