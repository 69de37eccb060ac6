"""Optimizers compute what they are called after."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from instances.extract.record.graph.optimizers import OPTIMIZERS, AdamW, Lamb, Sgd, clip_factor

pytestmark = pytest.mark.torch


def gradients_of(steps: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(7, generator=generator, dtype=torch.float64) - 0.5 for _ in range(steps)]


def test_sgd_computes_what_pytorch_computes() -> None:
    ours = Sgd(lr=0.1, momentum=0.8, weight_decay=0.05)
    reference = torch.nn.Parameter(torch.linspace(-1, 1, 7, dtype=torch.float64))
    optimizer = torch.optim.SGD([reference], lr=0.1, momentum=0.8, weight_decay=0.05)
    parameter = reference.detach().clone()
    state = ours.initial_state(parameter)
    for gradient in gradients_of(4):
        reference.grad = gradient.clone()
        optimizer.step()
        parameter, state = ours.update(parameter, gradient, state)
        torch.testing.assert_close(parameter, reference.detach())


def test_lamb_moves_by_its_rate_times_the_length_of_the_parameter() -> None:
    ours = Lamb(lr=0.01)
    parameter = torch.linspace(1, 2, 7, dtype=torch.float64)
    state = ours.initial_state(parameter)
    for gradient in gradients_of(3):
        new, state = ours.update(parameter, gradient, state)
        length = torch.linalg.vector_norm(parameter)
        torch.testing.assert_close(torch.linalg.vector_norm(new - parameter), 0.01 * length)
        parameter = new


def test_the_first_step_of_lamb_goes_against_the_sign_of_the_gradient() -> None:
    ours = Lamb(lr=0.01, weight_decay=0.0)
    parameter = torch.ones(7, dtype=torch.float64)
    (gradient,) = gradients_of(1)
    new, _ = ours.update(parameter, gradient, ours.initial_state(parameter))
    # Corrected moments are the gradient and its square, so that every element moves alike.
    torch.testing.assert_close(new, parameter - 0.01 * gradient.sign(), rtol=1e-4, atol=1e-6)


def test_lamb_does_not_scale_the_step_of_a_parameter_of_zeros() -> None:
    ours = Lamb(lr=0.01, weight_decay=0.0)
    parameter = torch.zeros(7, dtype=torch.float64)
    (gradient,) = gradients_of(1)
    new, _ = ours.update(parameter, gradient, ours.initial_state(parameter))
    torch.testing.assert_close(new, -0.01 * gradient.sign(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_the_step_counter_is_float32_beside_parameters_of_16_bits(name: str) -> None:
    mean, square, step = OPTIMIZERS[name]().initial_state(torch.zeros(3, dtype=torch.bfloat16))
    assert (mean.dtype, square.dtype, step.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)


def test_adamw_and_clipping_compute_what_pytorch_computes() -> None:
    generator = torch.Generator().manual_seed(0)
    ours = AdamW(lr=0.1, weight_decay=0.05)
    reference = torch.nn.Parameter(torch.rand(7, generator=generator, dtype=torch.float64))
    optimizer = torch.optim.AdamW([reference], lr=0.1, weight_decay=0.05)
    parameter = reference.detach().clone()
    state = ours.initial_state(parameter)
    for _ in range(4):
        gradient = 3 * torch.rand(7, generator=generator, dtype=torch.float64)
        reference.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_([reference], 1.0)
        optimizer.step()
        scaled = gradient * clip_factor([gradient], 1.0)
        parameter, state = ours.update(parameter, scaled, state)
        # The step counter, and so the corrections, are float32, as PyTorch's capturable ones.
        torch.testing.assert_close(parameter, reference.detach(), rtol=1e-4, atol=1e-6)
    assert clip_factor([torch.full((2,), 0.1)], 1.0) == 1.0
