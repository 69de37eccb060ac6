"""The chunks of each node cover its tensors once, stamps first, and split no word."""

from __future__ import annotations

from random import Random

import numpy as np

from gpu_runtime.cuda.work_table import CHUNK_BYTES, Table, make_work_table
from gpu_runtime.layout import Layout, full_layout
from gpu_runtime.node_program import Tensors, make_program
from planners import Problem, Safety
from tests.random_problems import random_problem


def test_chunks_cover_what_a_node_stamps_and_checks() -> None:
    for seed in range(60):
        drawn = random_problem(Random(seed), Safety.GRAPH, (0, 10), features=frozenset({"zero"}))
        problem = Problem(drawn.size * 20_011, graph=drawn.graph)
        offsets = np.cumsum(problem.size) - problem.size + 5
        program, layout = make_program(problem), full_layout(problem, offsets)
        table = make_work_table(program, layout)
        assert (table.chunks["bytes"] > 0).all()
        first, last = table.chunks["begin"], table.chunks["begin"] + table.chunks["bytes"] - 1
        np.testing.assert_array_equal(first // CHUNK_BYTES, last // CHUNK_BYTES)
        for node, row in enumerate(table.nodes):
            begin = int(row["first_chunk"])
            its = table.chunks[begin : begin + int(row["chunks"])]
            stamps = int(row["stamp_chunks"])
            assert spans(its[:stamps]) == expected_spans(program.stamps[node], layout)
            assert spans(its[stamps:]) == expected_spans(program.checks[node], layout)
        assert table.nodes["chunks"].sum() == len(table.chunks)


def spans(chunks: Table) -> list[tuple[int, int, int]]:
    """Return tensor, begin and end of chunks, those that follow upon each other as one."""
    joined: list[tuple[int, int, int]] = []
    for chunk in chunks:
        tensor, begin = int(chunk["tensor"]), int(chunk["begin"])
        end = begin + int(chunk["bytes"])
        if joined and joined[-1][0] == tensor and joined[-1][2] == begin:
            begin = joined.pop()[1]
        joined.append((tensor, begin, end))
    return joined


def expected_spans(tensors: Tensors, layout: Layout) -> list[tuple[int, int, int]]:
    return [
        (tensor, int(layout.offset[tensor]), int(layout.offset[tensor] + layout.size[tensor]))
        for tensor in tensors
    ]
