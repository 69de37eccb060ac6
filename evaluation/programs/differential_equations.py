"""A neural differential equation, solved by steps as long as their error allows."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend
from gpu_runtime.training.scene import Scene

ROWS, WIDTH, HIDDEN = 8_192, 256, 2_048
TOLERANCE, FIRST_STEP, LEAST_STEP = 1e-3, 0.2, 0.02
# A step grows or shrinks by at most these factors.
MOST_SHRINK, MOST_GROWTH, CAUTION = 0.3, 3.0, 0.9


class Slope(nn.Module):
    """The slope of the state at a time."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width + 1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, width),
        )  # fmt: skip
        self.stiffness = 6.0

    def forward(self, time: float, state: Tensor) -> Tensor:
        """Return the slope; it changes the faster, the farther the state is from zero."""
        at = state.new_full((len(state), 1), time)
        slope: Tensor = self.layers(torch.cat([state, at], 1)) * self.stiffness
        return slope - state


def adaptive_solver(scene: Scene) -> nn.Module:
    """Train through an adaptive solver, which calls the network as often as it must."""
    width = scene.wide(WIDTH, 4)
    with torch.device(scene.device):
        model = Slope(width, scene.wide(HIDDEN, 16))
    optimizer = scene.adamw(model.parameters(), 1e-3)
    rows = scene.batch(ROWS)
    for _ in scene.rounds:
        # States farther from zero need more steps.
        state = scene.normal(rows, width) * (1 + scene.choice(4))
        wanted = scene.normal(rows, width)
        with scene.step():
            descend(scene, optimizer, functional.mse_loss(_solve(model, state), wanted))
    return model


def _solve(slope: nn.Module, state: Tensor) -> Tensor:
    """Integrate from 0 to 1 by the pair of Bogacki and Shampine 1989."""
    time, step = 0.0, FIRST_STEP
    first = slope(time, state)
    while time < 1:
        step = min(max(step, LEAST_STEP), 1 - time)
        second = slope(time + step / 2, state + step / 2 * first)
        third = slope(time + 3 / 4 * step, state + 3 / 4 * step * second)
        after = state + step * (2 / 9 * first + 1 / 3 * second + 4 / 9 * third)
        fourth = slope(time + step, after)
        lower = state + step * (7 / 24 * first + second / 4 + third / 3 + fourth / 8)
        error = float((after - lower).detach().abs().max()) / TOLERANCE
        if error <= 1 or step <= LEAST_STEP:
            time, state, first = time + step, after, fourth
        step *= min(max(CAUTION * max(error, 1e-6) ** (-1 / 3), MOST_SHRINK), MOST_GROWTH)
    return state
