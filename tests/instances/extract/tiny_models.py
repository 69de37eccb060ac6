"""Every model, made tiny, and what is asked of its problem."""

from __future__ import annotations

from functools import cache
from typing import Any

from instances.extract.models import find_model
from instances.extract.record.recording import extract
from planners import Problem
from planners.model.bounds import lifetime_bound

SMALLEST_IMAGE = {"vit-base": 32}


def tiny_settings(name: str) -> dict[str, Any]:
    defaults = find_model(name).defaults
    # Few operators a parameter: it is the optimizer that takes the time.
    tiny: dict[str, Any] = {"batch": 2, "optimizer": "sgd", "clip_norm": 0.0}
    if defaults.seq is not None:
        tiny["seq"] = 16
    if defaults.image is not None:
        tiny["image"] = SMALLEST_IMAGE.get(name, 64)
    if defaults.layers is not None:
        tiny["layers"] = 2
    return tiny


@cache
def extract_tiny(name: str, **changes: Any) -> Problem:
    tiny = tiny_settings(name)
    if changes.get("mode") == "inference":
        del tiny["optimizer"], tiny["clip_norm"]
    return extract(name, find_model(name).settings(**{**tiny, **changes}))


def ops_of(problem: Problem) -> list[str]:
    assert problem.graph is not None
    return list(problem.graph.op)


def gradient_names(problem: Problem) -> list[str]:
    return [name for name in problem.tensor_name or () if name.startswith("grad ")]


def exchanged(problem: Problem) -> set[int]:
    """Tensors that an all-to-all sends or receives."""
    assert problem.graph is not None
    exchanges = {node for node, op in enumerate(problem.graph.op) if op == "all_to_all"}
    return {
        tensor
        for tensor, producer in enumerate(problem.graph.producer.tolist())
        if exchanges & {producer, *problem.graph.consumers_of(tensor).tolist()}
    }


def peak_of(problem: Problem) -> int:
    return lifetime_bound(problem).bytes
