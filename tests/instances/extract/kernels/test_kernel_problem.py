"""From a trace to a problem."""

from __future__ import annotations

from instances.extract.kernels.kernel_problem import build_problem
from instances.extract.step_settings import StepSettings
from tests.instances.extract.hand_made import tiny_trace


def test_a_tiny_step_becomes_this_problem() -> None:
    settings = StepSettings(nodes_per_stream=2)
    problem = build_problem(tiny_trace(), settings, "tiny", {"model": "hand-made"})
    assert problem.tensor_name == ("x", "h", "loss", "grad w")
    assert problem.size.tolist() == [40, 40, 4, 8]
    graph = problem.graph
    assert graph is not None
    #                  0        1      2       3      4     5             6      7
    assert graph.op == ("input", "mul", "exp_", "sum", "mm", "all_reduce", "sub", "output")
    assert graph.stream.tolist() == [0, 1, 1, 2, 2, 3, 4, 0]
    assert graph.producer.tolist() == [0, 1, 3, 4]
    consumers = [graph.consumers_of(tensor).tolist() for tensor in range(4)]
    assert consumers == [[1], [2, 3, 4], [7], [5, 6]]
    # mul reads w before sub writes it (that mm does is an arc of its gradient already); exp_ is
    # done before h is read; sub reads the reduced gradient.
    assert graph.control.tolist() == [[1, 6], [2, 3], [2, 4], [5, 6]]
    # One gradient alone is no chain.
    assert problem.contiguous == ()


def test_in_succession_a_stream_waits_for_the_full_one() -> None:
    settings = StepSettings(nodes_per_stream=2, streams="succession")
    graph = build_problem(tiny_trace(), settings, "tiny", {"model": "hand-made"}).graph
    assert graph is not None
    assert graph.stream.tolist() == [0, 1, 1, 2, 2, 3, 4, 0]
    # Streams 2 and 4 begin when 1 and 2 are done; the others are the first of their categories.
    assert graph.control.tolist() == [[1, 6], [2, 3], [2, 4], [4, 6], [5, 6]]
