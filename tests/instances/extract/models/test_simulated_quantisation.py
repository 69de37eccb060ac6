"""Simulated quantisation on real tensors: values, ranges, gradients; and a whole network traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.instances.extract.tiny_models import extract_tiny, gradient_names, ops_of

if TYPE_CHECKING:
    from torch import Tensor

    from instances.extract.models.networks.simulated_quantisation import ObservedRange

pytestmark = pytest.mark.torch

# Of MobileNetV2, and sums that follow a convolution.
CONVOLUTIONS, RESIDUALS = 52, 10


def rounded(value: float, low: float, high: float) -> float:
    """Value at the nearest of 256 steps, as published: scale, zero point, round, clamp, back."""
    scale = (high - low) / 255
    zero_point = round(-128 - low / scale)
    step = min(max(round(value / scale + zero_point), -128), 127)
    return (step - zero_point) * scale


def with_range(module: ObservedRange, low: list[float], high: list[float]) -> None:
    """Give a module ranges that it keeps."""
    import torch

    module.eval()
    module.low.copy_(torch.tensor(low))
    module.high.copy_(torch.tensor(high))


def test_an_activation_lies_on_the_steps_of_its_range() -> None:
    import torch

    from instances.extract.models.networks.simulated_quantisation import QuantisedActivation

    quantised = QuantisedActivation()
    with_range(quantised, [-1.0], [3.0])
    values = [-7.0, -1.0, -0.41, -0.011, 0.0, 0.006, 0.3, 1.234, 2.99, 3.0, 50.0]
    result = quantised(torch.tensor(values)).tolist()
    assert result == pytest.approx([rounded(value, -1.0, 3.0) for value in values], abs=1e-6)


@pytest.mark.parametrize(("low", "high"), [(2.0, 5.0), (-5.0, -2.0), (0.0, 0.0)])
def test_zero_is_exact_in_every_range(low: float, high: float) -> None:
    import torch

    from instances.extract.models.networks.simulated_quantisation import QuantisedActivation

    quantised = QuantisedActivation()
    with_range(quantised, [low], [high])
    result = quantised(torch.tensor([0.0, low, high])).tolist()
    assert result == pytest.approx([0.0, low, high], abs=1e-6)
    assert result[0] == 0


def test_a_weight_lies_on_the_steps_of_its_channels_largest_value() -> None:
    import torch

    from instances.extract.models.networks.simulated_quantisation import QuantisedWeight

    quantised = QuantisedWeight(2)
    weight = [[-2.0, 0.5, 1.0, 0.013], [-0.03, 0.01, 0.0, 0.02]]
    result = quantised(torch.tensor(weight).view(2, 1, 2, 2)).view(2, 4).tolist()
    for values, found in zip(weight, result, strict=True):
        scale = 2 * max(map(abs, values)) / 255
        # The largest value lies between two steps, and may go to either.
        assert found == pytest.approx(values, abs=scale / 2 + 1e-6)
        assert [value / scale for value in found] == pytest.approx(
            [round(value / scale) for value in found], abs=1e-4
        )
    # A weight's range is that of now.
    assert quantised.low.tolist() == pytest.approx([-2.0, -0.03])
    assert quantised.high.tolist() == pytest.approx([1.0, 0.02])


def test_an_activations_range_moves_slowly_and_only_in_training() -> None:
    import torch

    from instances.extract.models.networks.simulated_quantisation import DECAY, QuantisedActivation

    quantised = QuantisedActivation()
    low = quantised.low
    seen = torch.tensor([[-2.0, 1.0], [0.0, 16.0]])
    quantised(seen)
    expected = [-6.0 + (1 - DECAY) * (-2.0 + 6.0), 6.0 + (1 - DECAY) * (16.0 - 6.0)]
    assert [quantised.low.item(), quantised.high.item()] == pytest.approx(expected)
    assert quantised.low is low
    quantised.eval()(seen * 100)
    assert [quantised.low.item(), quantised.high.item()] == pytest.approx(expected)


def gradient(module: ObservedRange, values: list[list[float]], slopes: list[list[float]]) -> Tensor:
    import torch

    input = torch.tensor(values, requires_grad=True)
    (found,) = torch.autograd.grad(module(input), input, torch.tensor(slopes))
    return found


def test_the_gradient_passes_straight_inside_the_range_and_not_outside() -> None:
    from instances.extract.models.networks.simulated_quantisation import (
        QuantisedActivation,
        QuantisedWeight,
    )

    slopes = [[1.5, -2.0, 3.0, 0.25], [1.0, 2.0, -3.0, 4.0]]
    activation = QuantisedActivation()
    with_range(activation, [-1.0], [3.0])
    found = gradient(activation, [[-1.1, -0.9, 0.001, 2.9], [3.1, 9.0, 0.0, -9.0]], slopes)
    assert found.tolist() == [[0.0, -2.0, 3.0, 0.25], [0.0, 0.0, -3.0, 0.0]]
    weight = QuantisedWeight(2)
    with_range(weight, [-1.0, -0.1], [0.5, 0.2])
    found = gradient(weight, [[-1.1, -0.9, 0.9, 1.1], [-0.19, 0.19, 0.21, -0.21]], slopes)
    assert found.tolist() == [[0.0, -2.0, 3.0, 0.0], [1.0, 2.0, 0.0, 0.0]]


def test_a_folded_convolution_is_the_plain_one_up_to_rounding() -> None:
    import torch
    from torch import nn

    from instances.extract.models.networks.simulated_quantisation import FoldedConvolution

    torch.manual_seed(0)
    convolution = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2, bias=False)
    norm = nn.BatchNorm2d(8)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
        norm.get_buffer("running_var").uniform_(0.1, 3)
    images = torch.randn(2, 4, 8, 8)
    folded = FoldedConvolution(convolution, norm)
    for training in (True, False):
        folded.train(training)
        plain = norm(convolution(images))
        difference = (folded(images) - plain).abs().max().item()
        assert 0 < difference < 0.05


def test_a_folded_convolution_rounds_the_weight_that_is_deployed() -> None:
    import torch
    from torch import nn

    from instances.extract.models.networks.simulated_quantisation import FoldedConvolution

    convolution = nn.Conv2d(1, 1, 1, bias=False)
    norm = nn.BatchNorm2d(1, eps=0.0)
    with torch.no_grad():
        convolution.weight.fill_(0.3)
        norm.weight.fill_(2.0)
        norm.get_buffer("running_var").fill_(4.0)
    folded = FoldedConvolution(convolution, norm).eval()
    with_range(folded.quantised, [-0.2], [0.2])
    # Its factor is 2 / sqrt(4), so that 0.3 remains 0.3 and is cut to 127 steps of 0.4 / 255.
    result = folded(torch.ones(1, 1, 1, 1)).item()
    assert result == pytest.approx(127 * 0.4 / 255)


def test_all_of_mobilenet_is_rounded_and_its_ranges_are_updated_in_place() -> None:
    problem = extract_tiny("mobilenet-v2-quant")
    ops = ops_of(problem)
    weights = CONVOLUTIONS + 1
    activations = CONVOLUTIONS + RESIDUALS + 1
    assert ops.count("convolution") == CONVOLUTIONS
    assert ops.count("fake_quantize_per_channel_affine_cachemask") == weights
    per_tensor = "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"
    assert ops.count(per_tensor) == activations
    assert ops.count("lerp_") == 2 * (weights + activations)
    assert len(gradient_names(problem)) == len(gradient_names(extract_tiny("mobilenet-v2")))
    assert problem.graph is not None
    sizes: dict[int, list[int]] = {}
    for tensor, producer in enumerate(problem.graph.producer.tolist()):
        assert ops[producer] != "lerp_"
        if ops[producer] == per_tensor:
            sizes.setdefault(producer, []).append(int(problem.size[tensor]))
    # The rounded tensor, and a byte an element that says where the gradient passes.
    assert all(rounded == 4 * mask for rounded, mask in sizes.values())
    assert len(sizes) == activations


def test_a_rounded_network_observes_nothing_in_inference() -> None:
    ops = ops_of(extract_tiny("mobilenet-v2-quant", mode="inference"))
    assert "lerp_" not in ops
    assert ops.count("fake_quantize_per_channel_affine_cachemask") == CONVOLUTIONS + 1
