"""Every registered model: its size by the literature, and its graph when it is made tiny."""

from __future__ import annotations

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from instances.extract.models import MODELS, find_model
from planners import check, place
from tests.instances.extract.tiny_models import (
    exchanged,
    extract_tiny,
    gradient_names,
    ops_of,
    peak_of,
)

pytestmark = pytest.mark.torch

# Parameters as published, in the shape that is registered: language models with their head,
# classifiers with 1000 classes.
PARAMETERS = {
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "gpt2-medium": 354_823_168,
    "llama-1b": 1_235_814_400,
    "resnet-50": 25_557_032,
    "mobilenet-v2": 3_504_872,
    "vit-base": 86_567_656,
    # The literature rounds.
    "transformer": pytest.approx(2.13e8, rel=0.02),
}

# Operators, or parts of their names, that no GPU runs.
CPU_ONLY = ("mkldnn", "_for_cpu", "_cpu", "xnnpack", "fbgemm", "onednn")


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_model_has_the_parameters_of_the_literature(name: str) -> None:
    from instances.extract.models.building import build_module

    model = find_model(name)
    with FakeTensorMode():
        module, _ = build_module(model, model.settings())
    assert sum(parameter.numel() for parameter in module.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_training_step_is_planned_and_runs_on_a_gpu(name: str) -> None:
    problem = extract_tiny(name)
    plan = place(problem, "size", "first")
    check(problem, plan)
    assert plan.peak >= peak_of(problem)
    assert not [op for op in ops_of(problem) if any(part in op for part in CPU_ONLY)]
    # Everything that is trained has one gradient; chains are made of gradients and of chunks.
    names = gradient_names(problem)
    assert len(names) == len(set(names)) > 0
    assert problem.contiguous
    assert problem.tensor_name is not None
    chained = {tensor for chain in problem.contiguous for tensor in chain}
    assert {problem.tensor_name[tensor] for tensor in chained - exchanged(problem)} <= set(names)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_inference_is_forward_alone(name: str) -> None:
    problem = extract_tiny(name, mode="inference")
    check(problem, place(problem, "size", "first"))
    ops = ops_of(problem)
    assert not [op for op in ops if any(part in op for part in (*CPU_ONLY, "dropout", "backward"))]
    assert "all_reduce" not in ops
    assert not gradient_names(problem)
    assert {tensor for chain in problem.contiguous for tensor in chain} == exchanged(problem)
    assert peak_of(problem) < peak_of(extract_tiny(name))
    assert problem.graph is not None
    # The sink keeps what the model returns, and nothing else.
    kept = [t for t in range(problem.tensor_count) if len(ops) - 1 in problem.graph.consumers_of(t)]
    assert kept
    assert "optimizer" not in problem.origin


def test_sixteen_bits_take_half_the_memory() -> None:
    wide, narrow = (
        peak_of(extract_tiny("resnet-50", precision=precision))
        for precision in ("float32", "bfloat16")
    )
    assert narrow == pytest.approx(wide / 2, rel=0.02)


def test_the_statistics_of_norms_stay_in_float32() -> None:
    problem = extract_tiny("vit-base", precision="bfloat16")
    assert problem.graph is not None
    sizes = {
        int(problem.size[tensor])
        for tensor, producer in enumerate(problem.graph.producer.tolist())
        if problem.graph.op[producer] == "native_layer_norm"
    }
    tokens = 2 * (1 + 2 * 2)
    assert sizes == {2 * tokens * 768, 4 * tokens}


@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_other_optimizers_reach_every_parameter(optimizer: str) -> None:
    problem = extract_tiny("vit-base", optimizer=optimizer)
    check(problem, place(problem, "size", "first"))
    assert len(gradient_names(problem)) == len(gradient_names(extract_tiny("vit-base")))
