"""Qwen2-MoE, a decoder with sparse blocks, whose experts are spread over ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from instances.extract.models.model_registry import register
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@register(
    "qwen2-moe",
    "transformers.Qwen2MoeForCausalLM(Qwen2MoeConfig()) with experts spread over ranks",
    StepSettings(batch=2, seq=960, layers=12, ranks=4, precision="bfloat16"),
    recomputed=("model.layers",),
)
def qwen2_moe(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build Qwen2-MoE with 60 experts, of which each token goes through 4."""
    return build_qwen2_moe(settings)


def build_qwen2_moe(settings: StepSettings, **config: Any) -> tuple[Module, dict[str, Tensor]]:
    """Build a Qwen2-MoE for language modelling, whose blocks hold one rank's experts, and a batch.

    What is given of ``transformers.Qwen2MoeConfig`` differs from its defaults.
    """
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    shape: dict[str, Any] = {"num_hidden_layers": settings.layers, **config}
    moe_config = Qwen2MoeConfig(use_cache=False, **shape)
    if moe_config.num_experts % settings.ranks:
        raise InstanceError(
            f"setting ranks: a divisor of {moe_config.num_experts}, the number of experts, "
            f"found {settings.ranks}"
        )
    require_positions(settings, moe_config.max_position_embeddings)
    model = Qwen2MoeForCausalLM(moe_config)
    for layer in model.model.layers:
        layer.mlp = spread_experts(layer.mlp, moe_config, settings.ranks)
    return model, token_batch(settings, "input_ids")


def spread_experts(block: Any, config: Any, ranks: int) -> Module:
    """Return a sparse block that holds the experts of one rank, each with weights of its own.

    Router and shared expert are those of the block of transformers.
    """
    from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeMLP

    from instances.extract.parallel.expert_parallel import ExpertParallelBlock, GatedExpert

    make_expert: Callable[..., Module] = Qwen2MoeMLP
    experts = [
        make_expert(config, intermediate_size=config.moe_intermediate_size)
        for _ in range(config.num_experts // ranks)
    ]
    shared = GatedExpert(block.shared_expert, block.shared_expert_gate)
    return ExpertParallelBlock(block.gate, experts, shared, ranks)
