"""A diffusion model: a network that predicts the noise in a picture."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend
from gpu_runtime.training.scene import Scene

TIMES = 1000
BATCH, SIDE = 32, 64
# Heights and widths of about equal areas.
BUCKETS = ((96, 96), (80, 112), (112, 80), (64, 144), (144, 64), (64, 128), (128, 64))
# Groups of each group norm, and channels of each attention head.
GROUPS = 8
HEAD = 32


class Residual(nn.Module):
    """Two convolutions; an embedding of the time is added between them."""

    def __init__(self, into: int, out: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(GROUPS, into), nn.SiLU(), nn.Conv2d(into, out, 3, padding=1)
        )
        self.time = nn.Linear(time, out)
        self.second = nn.Sequential(
            nn.GroupNorm(GROUPS, out), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(out, out, 3, padding=1)
        )
        self.skip = nn.Identity() if into == out else nn.Conv2d(into, out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the sum of the input and of the convolutions' output."""
        between = self.first(x) + self.time(functional.silu(time))[:, :, None, None]
        out: Tensor = self.second(between) + self.skip(x)
        return out


class Attention(nn.Module):
    """Every place of a picture looks at every other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the input and of the attention's output."""
        batch, width, height, columns = x.shape
        parts = self.qkv(self.norm(x)).view(batch, 3, width // HEAD, HEAD, height * columns)
        query, key, value = (part.transpose(-1, -2) for part in parts.unbind(1))
        seen = functional.scaled_dot_product_attention(query, key, value)
        out: Tensor = x + self.out(seen.transpose(-1, -2).reshape(x.shape))
        return out


class Level(nn.Module):
    """A residual block at one size of the picture, with attention behind it if ``looks``."""

    def __init__(self, into: int, out: int, time: int, *, looks: bool) -> None:
        super().__init__()
        self.block = Residual(into, out, time)
        self.look = Attention(out) if looks else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the picture behind the block and the attention."""
        seen: Tensor = self.look(self.block(x, time))
        return seen


class UNet(nn.Module):
    """A UNet of four levels down and four up; the two levels of smaller sizes have attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width, 2 * width, 3 * width, 4 * width]
        time = 4 * width
        self.time = nn.Sequential(nn.Embedding(TIMES, time), nn.Linear(time, time), nn.SiLU())
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        for level, (into, out) in enumerate(zip([width, *widths[:-1]], widths, strict=True)):
            self.down.append(Level(into, out, time, looks=level >= 2))
            self.shrink.append(nn.Conv2d(out, out, 3, stride=2, padding=1))
            self.up.insert(0, Level(2 * out, into, time, looks=level >= 2))
            self.grow.insert(0, nn.Conv2d(out, out, 3, padding=1))
        self.middle = Residual(widths[-1], widths[-1], time)
        self.leave = nn.Sequential(
            nn.GroupNorm(GROUPS, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)
        )

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the predicted noise."""
        told = self.time(time)
        x = self.enter(x)
        kept = []
        for down, shrink in zip(self.down, self.shrink, strict=True):
            x = down(x, told)
            kept.append(x)
            x = shrink(x)
        x = self.middle(x, told)
        for up, grow in zip(self.up, self.grow, strict=True):
            x = grow(functional.interpolate(x, scale_factor=2.0))
            x = up(torch.cat([x, kept.pop()], 1), told)
        noise: Tensor = self.leave(x)
        return noise


def unet(scene: Scene) -> nn.Module:
    """Train on pictures of one size."""
    return _denoise(scene, lambda: (SIDE, SIDE))


def unet_in_buckets(scene: Scene) -> nn.Module:
    """Train on pictures of random aspect ratios; a batch has one."""
    return _denoise(scene, lambda: BUCKETS[scene.choice(len(BUCKETS))])


def _denoise(scene: Scene, next_size: Callable[[], tuple[int, int]]) -> nn.Module:
    """Train a UNet to predict the noise added to pictures; later times have more noise."""
    with torch.device(scene.device):
        model = UNet(scene.wide(128, 32))
    optimizer = scene.adamw(model.parameters())
    batch = scene.batch(BATCH)
    for _ in scene.rounds:
        height, width = (scene.wide(side, side // 64 * 16) for side in next_size())
        pictures = scene.normal(batch, 3, height, width)
        with scene.step():
            time = torch.randint(TIMES, (batch,), device=scene.device)
            noise = torch.randn_like(pictures)
            share = (time / TIMES)[:, None, None, None]
            noisy = (1 - share).sqrt() * pictures + share.sqrt() * noise
            with scene.autocast():
                loss = functional.mse_loss(model(noisy, time).float(), noise)
            descend(scene, optimizer, loss)
    return model
