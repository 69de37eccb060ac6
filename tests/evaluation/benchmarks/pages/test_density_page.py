"""Nodes dealt to streams of another length: what follows waits, or does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.benchmarks.cases.committed_instances import committed_instances
from evaluation.benchmarks.pages import density_page
from evaluation.benchmarks.pages.density_page import count_open, dealt_again, unsafe_share
from instances.extract.parallel.streams import StreamScheme
from planners import Graph, Problem, read_problem, write_problem

CATEGORY, SUCCESSION = StreamScheme.CATEGORY, StreamScheme.SUCCESSION


def updates(count: int, length: int) -> Problem:
    """Return so many chains of so many nodes, one after the other, that have nothing in common."""
    nodes = count * length
    ends = range(length - 1, nodes, length)
    return Problem(
        [1] * nodes,
        graph=Graph(
            op=["mul"] * nodes,
            stream=[0] * nodes,
            producer=range(nodes),
            consumers=[[] if node in ends else [node + 1] for node in range(nodes)],
        ),
    )


@pytest.mark.parametrize(
    ("limit", "open_count", "count"),
    [
        (12, 0, 0),  # all on one stream
        (7, 0, 1),  # begins in the middle of an update
        (6, 1, 1),  # begins with one
        (4, 0, 2),
        (3, 3, 3),
        (2, 1, 5),
    ],
)
def test_a_stream_is_open_where_it_begins_with_an_update(
    limit: int, open_count: int, count: int
) -> None:
    graph = dealt_again(updates(4, 3), limit, CATEGORY).graph
    assert graph is not None
    assert count_open(graph) == (open_count, count)


def test_pairs_across_an_open_stream_are_unsafe() -> None:
    # Two streams of six nodes each, nothing between them: 36 pairs, and in either the neighbours.
    halves = dealt_again(updates(4, 3), 6, CATEGORY)
    whole = dealt_again(updates(4, 3), 12, CATEGORY)
    pairs = 12 * 11 / 2
    assert unsafe_share(halves) - unsafe_share(whole) == pytest.approx(36 / pairs)


@pytest.mark.parametrize(("limit", "percent"), [(349, 38.1), (350, 6.1), (351, 6.1)])
def test_the_committed_instance_jumps_with_the_limit(limit: int, percent: float) -> None:
    (bert,) = committed_instances(["bert"])
    share = unsafe_share(dealt_again(read_problem(bert), limit, CATEGORY))
    assert round(100 * share, 1) == percent


@pytest.mark.parametrize("name", ["bert", "resnet-50"])
def test_dealt_as_it_was_an_instance_has_the_pairs_that_it_had(name: str) -> None:
    (path,) = committed_instances([name])
    problem = read_problem(path)
    again = dealt_again(problem, 350, CATEGORY)
    assert again.stream_count == problem.stream_count
    assert again.core.unsafe_degrees().tolist() == problem.core.unsafe_degrees().tolist()


def test_in_succession_no_pair_depends_on_the_limit() -> None:
    (path,) = committed_instances(["resnet-50"])
    problem = read_problem(path)
    whole = dealt_again(problem, problem.tensor_count * 10, CATEGORY).core.unsafe_degrees()
    for limit in (1, 7, 100, 349, 350):
        dealt = dealt_again(problem, limit, SUCCESSION)
        assert dealt.core.unsafe_degrees().tolist() == whole.tolist()


def test_the_page(
    main: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(density_page, "LIMITS", (3, 7))
    path = tmp_path / "mine.json"
    write_problem(updates(4, 3), path)
    assert main("density", path) == 0
    page = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    assert ["3", "4", "3 of 3"] in [row[:3] for row in rows]
    assert ["7", "2", "0 of 1"] in [row[:3] for row in rows]
    write_problem(Problem([1], [0], [1]), path)
    assert main("density", path) == 2
    assert "a graph is needed" in capsys.readouterr().err
