"""The joint graph computes what autograd does, and PyTorch cuts it in two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from instances.extract.models import Model, find_model
from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError
from tests.instances.extract.tiny_models import extract_tiny, tiny_settings

if TYPE_CHECKING:
    import torch
    from torch import Tensor

pytestmark = pytest.mark.torch


def build_network(_settings: StepSettings | None = None) -> tuple[Any, dict[str, Tensor]]:
    """A network that changes activations and buffers in place, without random numbers."""
    import torch
    from torch.nn import functional

    from tests.instances.extract.output import Output

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, 4, 3)
            self.norm = torch.nn.BatchNorm2d(4)
            self.head = torch.nn.Linear(4, 5)
            self.register_buffer("highest", torch.zeros(()))

        def forward(self, image: torch.Tensor) -> Output:
            hidden = functional.relu(self.norm(self.convolution(image)), inplace=True)
            shifted = torch.zeros_like(hidden)
            shifted[..., 1:] = hidden[..., :-1]
            self.highest.lerp_(hidden.detach().amax(), 0.5)
            tokens = (hidden + shifted).flatten(2).transpose(1, 2)
            return Output(functional.gelu(self.head(tokens)).sum() * (1 + self.highest))

    return Network(), {"image": torch.ones(2, 3, 6, 6)}


SETTINGS = StepSettings()
NETWORK = Model("network", "", build_network, SETTINGS)


def test_a_joint_graph_computes_loss_and_gradients() -> None:
    import torch
    from torch.fx import Interpreter

    from instances.extract.partition.joint_graph import joint_graph

    joint = joint_graph(NETWORK, SETTINGS)
    module, _ = build_network()
    batch = torch.randn(2, 3, 6, 6)
    kept = {name: buffer.clone() for name, buffer in module.named_buffers()}
    parameters = list(module.parameters())
    tangent = torch.tensor(2.0)
    given = (batch, *kept.values(), *parameters, tangent)
    found = Interpreter(joint.module).run(*given, enable_io_processing=False)
    # Only a batch norm changes what it does not declare.
    assert kept["highest"] == 0
    loss = module(batch).loss
    gradients = torch.autograd.grad(loss, parameters, tangent)
    for one, other in zip(found, (loss, *gradients), strict=True):
        torch.testing.assert_close(one, other)
    assert len(joint.persistent_arguments) == len(kept) + len(parameters)


@pytest.mark.parametrize("solver", ["dp", "greedy", "ilp"])
def test_a_partition_saves_or_repeats(solver: str) -> None:
    from instances.extract.partition.joint_graph import joint_graph
    from instances.extract.partition.pytorch_partitioner import partition

    name, batch = "gpt2-medium", 32
    settings = find_model(name).settings(**{**tiny_settings(name), "batch": batch})
    problem = extract_tiny(name, batch=batch)
    assert problem.tensor_name is not None
    size = dict(zip(problem.tensor_name, problem.size.tolist(), strict=True))
    joint = joint_graph(find_model(name), settings)
    saved_bytes, repeated_bytes = [], []
    for memory_budget in (0.0, 0.5, 1.0):
        found = partition(joint, memory_budget, solver)
        assert partition(joint, memory_budget, solver) == found
        assert not found.saved & found.repeated
        assert found.repeated <= size.keys()
        saved_bytes.append(sum(size.get(tensor, 0) for tensor in found.saved))
        repeated_bytes.append(sum(size[tensor] for tensor in found.repeated))
    assert saved_bytes == sorted(saved_bytes)
    assert repeated_bytes == sorted(repeated_bytes, reverse=True)
    assert 0 < saved_bytes[1] < saved_bytes[2]
    assert repeated_bytes[1] > 0


def test_writers_of_a_buffer_never_run_again() -> None:
    from instances.extract.partition.joint_graph import joint_graph

    nodes = joint_graph(NETWORK, SETTINGS).module.graph.nodes
    marks = {node.name: str(node.meta.get("recompute")) for node in nodes}
    assert marks["lerp_"] == "CheckpointPolicy.MUST_SAVE"
    assert marks["relu_"] == marks["native_batch_norm"] == "None"


def test_exchanges_between_ranks_never_run_again() -> None:
    from instances.extract.partition.joint_graph import joint_graph

    name = "qwen2-moe"
    settings = find_model(name).settings(**tiny_settings(name), checkpointing=False)
    nodes = joint_graph(find_model(name), settings).module.graph.nodes
    marks = {str(node.meta.get("recompute")) for node in nodes if "all_to_all" in node.name}
    assert marks == {"CheckpointPolicy.MUST_SAVE"}


@pytest.mark.parametrize(
    "settings",
    [{"checkpointing": True}, {"mode": "inference", "optimizer": "adamw"}],
)
def test_a_step_that_has_nothing_to_cut(settings: dict[str, Any]) -> None:
    from instances.extract.partition.joint_graph import joint_graph

    with pytest.raises(InstanceError, match="a training step that recomputes nothing is needed"):
        joint_graph(find_model("bert-base"), StepSettings(**settings))


@pytest.mark.parametrize("name", ["mobilenet-v2", "resnet-50", "transformer", "qwen2-moe"])
def test_a_model_becomes_a_joint_graph(name: str) -> None:
    from instances.extract.partition.joint_graph import joint_graph

    changes = {"checkpointing": False} if name == "qwen2-moe" else {}
    joint = joint_graph(
        find_model(name), find_model(name).settings(**tiny_settings(name), **changes)
    )
    names = set(extract_tiny(name, **changes).tensor_name or ())
    made = {tensor for tensors in joint.makes.values() for tensor in tensors}
    assert made <= names
    # All that the forward pass makes from the batch on; the rest is of backward pass and optimizer.
    assert len(made) > 50
