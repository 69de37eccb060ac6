"""A mixture of experts for a trace without a GPU, in which each step routes tokens anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instances.extract.models.language_models import build_qwen2_moe
from instances.extract.models.named_model import find_model
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.step_settings import StepSettings
from instances.traces.allocation_trace import AllocationTrace

MODEL = "qwen2-moe"
SEED = 0
# Parameters of a Dirichlet distribution: the busiest of 30 experts gets about twice its share, or
# seven times.
EVEN, UNEVEN = 8.0, 0.3
LOOP = TraceSettings(4, microbatches=2, precision="bfloat16")


@dataclass(frozen=True)
class RoutedMixture:
    """A Qwen2-MoE whose experts get numbers of tokens that are drawn for each microbatch."""

    checkpointing: bool
    layers: int = 6
    experts: int = 30
    batch: int = 8
    seq: int = 1024
    evenness: float = EVEN
    loop: TraceSettings = LOOP

    @property
    def name(self) -> str:
        """As the paper names settings, N or R: without or with recomputation."""
        setting = "R" if self.checkpointing else "N"
        return f"{MODEL}, {setting}{', uneven' if self.evenness < 1 else ''}"

    def trace(self) -> AllocationTrace:
        """Return all requests of the training loop."""
        # Imported here because they need PyTorch.
        from instances.extract.models.building import build_module
        from instances.extract.record.fake_trace import trace_on_fake_tensors

        model = find_model(MODEL)
        settings = model.settings(
            batch=self.batch, seq=self.seq, layers=self.layers, ranks=1, precision="bfloat16",
            checkpointing=self.checkpointing,
        )  # fmt: skip
        routed = replace(model, build=self._build)
        return trace_on_fake_tensors(
            lambda: build_module(routed, settings), self.loop, self.name, {"seed": SEED}
        )

    def _build(self, settings: StepSettings) -> tuple[Any, dict[str, Any]]:
        module, batch = build_qwen2_moe(settings, num_experts=self.experts)
        route_by_chance(module, self.evenness)
        return module, batch


MIXTURES = tuple(
    RoutedMixture(checkpointing, evenness=evenness)
    for evenness in (EVEN, UNEVEN)
    for checkpointing in (False, True)
)


def route_by_chance(module: Any, evenness: float) -> None:
    """Let each sparse block of one rank deal its tokens by numbers drawn anew for each pass.

    A layer that is recomputed deals as it did before.
    """
    random = np.random.default_rng(SEED)
    blocks = [layer.mlp for layer in module.model.layers]

    def draw(*_: object) -> None:
        for block in blocks:
            block.shares = random.dirichlet([evenness] * len(block.experts))

    for block in blocks:
        block.forward = _Routed(block)
    module.register_forward_pre_hook(draw)


class _Routed:
    """The forward pass of a block whose experts take as many rows as their shares say."""

    def __init__(self, block: Any) -> None:
        self._block = block

    def __call__(self, hidden_states: Any) -> Any:
        from instances.extract.models.expert_parallel import combine_rows, dispatch_rows

        block = self._block
        hidden = hidden_states.view(-1, hidden_states.shape[-1])
        _, weights, chosen = block.router(hidden)
        order = chosen.flatten().argsort(stable=True)
        ends = np.rint(np.cumsum(block.shares) * len(order)).astype(int)
        rows = np.diff(ends, prepend=0).tolist()
        chunks = dispatch_rows(hidden, order, rows)
        computed = [expert(chunk) for expert, chunk in zip(block.experts, chunks, strict=True)]
        return (combine_rows(computed, weights, order) + block.shared(hidden)).view_as(
            hidden_states
        )
