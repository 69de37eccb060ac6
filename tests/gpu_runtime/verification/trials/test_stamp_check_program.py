"""Programs stamp, check and wait exactly as the problem says."""

from __future__ import annotations

from random import Random

from gpu_runtime.verification.trials.stamp_check_program import make_stamp_check_program
from planners import Graph, Problem, Safety
from planners.testing.random_problems import random_problem
from tests.definitions import descendants, users


def test_a_graph_gives_stamps_checks_and_waits() -> None:
    graph = Graph(
        op=["op"] * 5,
        stream=[3, 3, 9, 9, 3],
        producer=[0, 0, 2, 3, 1],
        # Read twice by another stream; a workspace; one that nobody reads; one without bytes.
        consumers=[[2, 3], [0, 1], [], [3], [4]],
        control=[(0, 4), (1, 3)],
    )
    program = make_stamp_check_program(Problem([8, 8, 8, 8, 0], graph=graph))
    assert program.stream == (0, 0, 1, 1, 0)
    assert program.stamps == ((0, 1), (), (2,), (3,), ())
    assert program.checks == ((1,), (1,), (0, 2), (0, 3), ())
    # Node 3 reads what 0 made and waits for 1, which is on the same stream and later.
    assert program.awaits == ((), (), (0,), (1,), ())


def test_paths_are_those_of_the_graph() -> None:
    for seed in range(200):
        problem = random_problem(Random(seed), Safety.GRAPH, (0, 12))
        assert problem.graph is not None
        program = make_stamp_check_program(problem)
        after = descendants(problem.graph)
        assert [program.descendants(n) for n in range(program.node_count)] == after
        for tensor in range(problem.tensor_count):
            checked = {n for n, its in enumerate(program.checks) if tensor in its}
            expected = users(problem.graph, tensor) if problem.size[tensor] else set()
            assert checked == expected


def test_lifetimes_run_on_one_stream_and_stamp_again_after_a_gap() -> None:
    #   step    0  1  2  3  4  5  6
    #   0       s     c     s     c    a gap in [3, 4)
    #   1             s  c
    problem = Problem([8, 8], [0, 2], [7, 4], gaps=[(0, 3, 4)])
    program = make_stamp_check_program(problem)
    assert program.stream == (0, 0, 0, 0, 0)
    assert program.stamps == ((0,), (1,), (), (0,), ())
    assert program.checks == ((), (0,), (1,), (), (0,))
