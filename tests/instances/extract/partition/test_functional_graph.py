"""Graphs without changes in place: the same results, under the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = pytest.mark.torch


def relu(x: Tensor) -> Tensor:
    y = x.mul(2)
    return y.relu_() + y


def parts(x: Tensor) -> Tensor:
    y = x.new_zeros(4, 6)
    y[:, 1:].copy_(x[:, :-1])
    y[2].fill_(7)
    y.masked_fill_(y > 6, -1)
    return y * 2


def within_a_part(x: Tensor) -> Tensor:
    y = x.clone()
    y[1:, ::2][:, 1].mul_(3)
    return y + x


def another_shape(x: Tensor) -> Tensor:
    y = x.clone()
    y.view(24).add_(1)
    return y.exp() + y.view(6, 4).sum()


def again(x: Tensor) -> Tensor:
    y = x.clone()
    z = y.view(24)
    z.add_(1)
    z.mul_(2)
    return y * z.sum()


def argument(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def twice(x: Tensor) -> Tensor:
    return x.div(2).add_(x).sub_(1).clamp_(min=0).div_(3)


def recorded(function: Callable[[Any], Any]) -> Any:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function, tracing_mode="fake")(torch.ones(4, 6))


@pytest.mark.parametrize(
    "function", [relu, parts, within_a_part, another_shape, again, argument, twice]
)
def test_a_functional_graph_returns_the_same(function: Callable[[Tensor], Tensor]) -> None:
    import torch

    from instances.extract.partition.functional_graph import make_functional

    module = recorded(function)
    names = {node.name for node in module.graph.nodes}
    written = make_functional(module.graph)
    module.graph.lint()
    module.recompile()
    schemas = [node.target._schema for node in module.graph.nodes if node.op == "call_function"]
    assert not any(schema.is_mutable for schema in schemas)
    assert names <= {node.name for node in module.graph.nodes}
    assert bool(written) == (function is argument)
    given = torch.arange(24.0).reshape(4, 6)
    kept = given.clone()
    assert torch.equal(module(given), function(kept.clone()))
    assert torch.equal(given, kept)


def stale(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[0]
    y.mul_(2)
    return row + 1


def transposed(x: Tensor) -> Tensor:
    y = x.clone()
    y.t().mul_(2)
    return y


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (stale, "operator mul_: select shares the storage that it changes, and is read later"),
        (
            transposed,
            "operator mul_: it changes the view t in place, and only views by view, slice",
        ),
    ],
)
def test_refuses_operators_without_a_functional_form(
    function: Callable[[Tensor], Tensor], message: str
) -> None:
    from instances.extract.partition.functional_graph import make_functional

    with pytest.raises(InstanceError) as error:
        make_functional(recorded(function).graph)
    assert str(error.value).startswith(message)


def test_a_functional_twin_takes_the_same_arguments() -> None:
    import torch

    from instances.extract.partition.functional_graph import functional_twin

    aten = torch.ops.aten
    assert functional_twin(aten.bernoulli_.float) is aten.bernoulli.p
    assert functional_twin(aten.mul_.Scalar) is aten.mul.Scalar
    assert functional_twin(aten.mul_.Tensor) is aten.mul.Tensor
    with pytest.raises(InstanceError, match="operator aten::add: no functional operator has"):
        functional_twin(aten.add.out)
