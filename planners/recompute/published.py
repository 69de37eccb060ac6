"""Planners that take no limit into account: keep all results, or repeat every block."""

from __future__ import annotations

import math

import numpy as np

from planners.model.columns import IntColumn
from planners.recompute.forward_blocks import narrow_places, units_of_blocks
from planners.recompute.limit_planner import (
    LimitAnswer,
    LimitQuestion,
    UnsupportedStepError,
    register,
)


@register("keep-all", summary="keep every result")
def keep_all(question: LimitQuestion) -> LimitAnswer:
    """Run nothing again."""
    return question.answer(question.step.choice())


@register(
    "checkpoint-blocks",
    summary="keep what enters each block, and run every block again",
    source="PyTorch, torch.utils.checkpoint",
)
def checkpoint_blocks(question: LimitQuestion) -> LimitAnswer:
    """Run again all that lies between two narrow places of the forward pass."""
    return _repeat_between(question, narrow_places(question.step))


@register(
    "checkpoint-sqrt",
    summary="the same for segments of blocks, as many as the square root of their number",
    source="Chen et al. 2016",
)
def checkpoint_sqrt(question: LimitQuestion) -> LimitAnswer:
    """Run again all that lies between evenly spaced narrow places."""
    ends = narrow_places(question.step)
    segments = max(1, math.isqrt(len(ends) + 1))
    chosen = np.linspace(0, len(ends), segments + 1)[1:-1].astype(np.int64)
    return _repeat_between(question, ends[chosen])


def _repeat_between(question: LimitQuestion, ends: IntColumn) -> LimitAnswer:
    step, op = question.step, question.step.graph.op
    units = np.concatenate(units_of_blocks(step, ends))
    late = step.first_late_node
    for unit in units.tolist():
        first, last = step.nodes_of_unit[unit][[0, -1]].tolist()
        if first < late < last:
            raise UnsupportedStepError(
                f"node {last} ({op[last]}) of the forward pass changes what node {first} "
                f"({op[first]}) made, or makes the rest of a chain, after node {late} "
                f"({op[late]}); so no block holds both and ends before the backward pass begins"
            )
    return question.answer(step.choice(units))
