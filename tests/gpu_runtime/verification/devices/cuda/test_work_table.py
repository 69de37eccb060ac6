"""The chunks of each node cover its tensors once, stamps first, and split no word."""

from __future__ import annotations

from random import Random

import numpy as np

from gpu_runtime.verification.devices.cuda.work_table import (
    LEAST_CHUNK_BYTES,
    MOST_CHUNK_BYTES,
    Table,
    make_work_table,
)
from gpu_runtime.verification.trials.arena_layout import Layout, full_layout
from gpu_runtime.verification.trials.stamp_check_program import Tensors, make_stamp_check_program
from planners import Problem, Safety
from planners.testing.random_problems import random_problem


def test_chunks_cover_what_a_node_stamps_and_checks() -> None:
    for seed in range(60):
        drawn = random_problem(Random(seed), Safety.GRAPH, (0, 10), features=frozenset({"zero"}))
        problem = Problem(drawn.size * 20_011, graph=drawn.graph)
        offsets = np.cumsum(problem.size) - problem.size + 5
        program, layout = make_stamp_check_program(problem), full_layout(problem, offsets)
        table = make_work_table(program, layout)
        assert (table.chunks["bytes"] > 0).all()
        assert (table.chunks["bytes"] <= LEAST_CHUNK_BYTES).all()
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
            assert begin % LEAST_CHUNK_BYTES == 0
            begin = joined.pop()[1]
        joined.append((tensor, begin, end))
    return joined


def expected_spans(tensors: Tensors, layout: Layout) -> list[tuple[int, int, int]]:
    return [
        (tensor, int(layout.offset[tensor]), int(layout.offset[tensor] + layout.size[tensor]))
        for tensor in tensors
    ]


def test_a_large_tensor_has_larger_chunks() -> None:
    for size, largest in ((16 << 20, 64 << 10), (100 << 20, 128 << 10), (1 << 30, 256 << 10)):
        problem = Problem([size], [0], [1])
        layout = full_layout(problem, np.array([3 * MOST_CHUNK_BYTES // 2 + 1]))
        table = make_work_table(make_stamp_check_program(problem), layout)
        assert table.chunks["bytes"].max() == largest
        stamps = int(table.nodes["stamp_chunks"][0])
        assert spans(table.chunks[:stamps]) == expected_spans((0,), layout)
