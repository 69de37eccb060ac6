"""Small trained matrices beside large ones that stay as they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from evaluation.programs.decoder_loop import train_decoder
from evaluation.programs.language_models import gpt2, words
from gpu_runtime.training.scene import Scene


def lora(scene: Scene) -> nn.Module:
    """Train what peft adds to a GPT-2 whose own weights are frozen, in bfloat16."""
    # Imported here because it is optional.
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["c_attn"], fan_in_fan_out=True
    )
    base = gpt2(scene, dtype=torch.bfloat16)
    model: Any = get_peft_model(base, config)
    return train_decoder(
        scene, model.train(), lambda: scene.tokens(8, scene.length(1024), words(scene))
    )
