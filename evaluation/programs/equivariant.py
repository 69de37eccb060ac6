"""A force field: a graph network whose features turn with the molecule."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend
from gpu_runtime.training.scene import Scene

LEAST_ATOMS, MOST_ATOMS, CHANNELS, LAYERS, WAVES = 1_000, 3_000, 32, 3, 8
# Atoms at a distance below 1 are neighbours. With this density an atom has so many on average.
ATOMS_A_VOLUME, NEIGHBOURS = 250, 24


class EquivariantLayer(nn.Module):
    """Atoms get products of their neighbours' features and of harmonics of the direction."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.radial = nn.Sequential(
            nn.Linear(WAVES, 4 * channels), nn.SiLU(), nn.Linear(4 * channels, 3 * channels)
        )
        self.mix, self.gate = (nn.Linear(channels, channels, bias=False) for _ in range(2))
        self.register_buffer("coupling", _coupling())

    def forward(self, atoms: Tensor, edges: Tensor, waves: Tensor, harmonics: Tensor) -> Tensor:
        """Return atoms as (atoms, harmonics, channels); edges are rows (target, source)."""
        of_degrees = self.radial(waves).unflatten(1, (3, 1, -1)).unbind(1)
        # The harmonics of a degree turn into each other, so they have one weight.
        weights = torch.cat([of_degrees[its].expand(-1, 2 * its + 1, -1) for its in range(3)], 1)
        sent = self.mix(atoms)[edges[:, 1]]
        messages = torch.einsum(
            "eac,ebc,abo->eoc", sent, weights * harmonics[..., None], self.coupling
        )
        got = torch.zeros_like(atoms).index_add(0, edges[:, 0], messages) / NEIGHBOURS
        # Only features of degree 0 do not turn; they decide how much of the others stays.
        return atoms + got * functional.silu(self.gate(got[:, :1]))


class ForceField(nn.Module):
    """The energy of a molecule, and the forces on its atoms."""

    def __init__(self, layers: int, channels: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(channels))
        self.layers = nn.ModuleList(EquivariantLayer(channels) for _ in range(layers))
        self.last = nn.Linear(channels, 1)

    def forward(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return the energy of an atom on average, and all forces."""
        edges = (torch.cdist(places, places) < 1).fill_diagonal_(False).nonzero()
        places = places.requires_grad_()
        offsets = places[edges[:, 1]] - places[edges[:, 0]]
        squares = offsets.square().sum(1, keepdim=True)
        rates = 2.0 ** torch.arange(WAVES, device=places.device)
        waves = (-rates * squares).exp() * (1 - squares).square()
        atoms = functional.pad(self.first.expand(len(places), 1, -1), (0, 0, 0, 8))
        harmonics = _harmonics(offsets)
        for layer in self.layers:
            atoms = layer(atoms, edges, waves, harmonics)
        energies = self.last(atoms[:, 0])
        (slope,) = torch.autograd.grad(energies.sum(), places, create_graph=True)
        return energies.mean(), -slope


def force_field(scene: Scene) -> nn.Module:
    """Train on random molecules, whose atoms have as many neighbours as lie near."""
    with torch.device(scene.device):
        model = ForceField(scene.layers(LAYERS), scene.wide(CHANNELS, 4))
    optimizer = scene.adamw(model.parameters(), 1e-3)
    for _ in scene.rounds:
        count = LEAST_ATOMS + scene.choice(MOST_ATOMS - LEAST_ATOMS)
        count = scene.wide(count, 8 + count % 16)
        places = scene.normal(count, 3) * (count / ATOMS_A_VOLUME) ** (1 / 3)
        wanted = scene.normal(count, 3)
        with scene.step():
            energy, forces = model(places)
            descend(scene, optimizer, energy.square() + functional.mse_loss(forces, wanted))
    return model


def _harmonics(offsets: Tensor) -> Tensor:
    """Return the nine spherical harmonics up to degree 2, times the distance to their degree."""
    x, y, z = offsets.unbind(-1)
    second = [x * y, y * z, x * z, (x * x - y * y) / 2, (2 * z * z - x * x - y * y) / 12**0.5]
    turning = [*(3**0.5 * its for its in (x, y, z)), *(15**0.5 * its for its in second)]
    return torch.stack([torch.ones_like(x), *turning], -1)


def _coupling() -> Tensor:
    """Return the means of products of three harmonics over the sphere (Gaunt coefficients)."""
    # Exact for polynomials up to degree 7.
    heights, shares = map(torch.tensor, np.polynomial.legendre.leggauss(4))
    angles = torch.arange(8, dtype=torch.float64) * math.pi / 4
    flat = (1 - heights.square()).sqrt()
    across = [torch.outer(flat, its) for its in (angles.cos(), angles.sin())]
    values = _harmonics(torch.stack([*across, heights[:, None].expand(4, 8)], -1))
    return torch.einsum("h,hpa,hpb,hpo->abo", shares / 16, values, values, values).float()
