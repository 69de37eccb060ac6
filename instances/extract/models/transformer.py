"""The encoder-decoder Transformer for translation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances.extract.models.model_registry import register
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import StepSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@register(
    "transformer",
    "transformers.MarianMTModel(MarianConfig(Transformer big))",
    StepSettings(batch=48, seq=128, layers=6, clip_norm=0.0),
    recomputed=("model.encoder.layers", "model.decoder.layers"),
)
def transformer(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build the big Transformer, with as many layers in the encoder as in the decoder."""
    from transformers import MarianConfig, MarianMTModel

    sizes = {"layers": settings.layers, "attention_heads": 16, "ffn_dim": 4096}
    shape: dict[str, Any] = {
        f"{part}_{field}": value
        for part in ("encoder", "decoder")
        for field, value in sizes.items()
    }
    config = MarianConfig(
        vocab_size=36560,
        d_model=1024,
        activation_function="relu",
        scale_embedding=True,
        use_cache=False,
        pad_token_id=0,
        decoder_start_token_id=0,
        **shape,
    )
    require_positions(settings, config.max_position_embeddings)
    # While training the decoder's tokens are the labels, shifted.
    decoder = () if settings.training else ("decoder_input_ids",)
    return MarianMTModel(config), token_batch(settings, "input_ids", "attention_mask", *decoder)
