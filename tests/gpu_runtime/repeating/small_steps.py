"""Small models, each as a loss of one batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, CLASSES = 256, 10


@dataclass
class SmallStep:
    """A model in training mode, and the loss of its batch."""

    module: nn.Module
    loss_of: Callable[[], Tensor]

    def gradients(self) -> list[Tensor]:
        """Return a copy of the gradient of each parameter that has one."""
        found = (parameter.grad for parameter in self.module.parameters())
        return [gradient.clone() for gradient in found if gradient is not None]

    def state(self) -> list[Tensor]:
        """Return a copy of each buffer, such as the running statistics of batch norms."""
        return [buffer.clone() for buffer in self.module.buffers()]


class Residual(nn.Module):
    """Convolutions with batch norm, additions and activations in place, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.convolutions = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(4))
        self.activation = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.1, inplace=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, image: Tensor, label: Tensor) -> Tensor:
        x = self.activation(self.norms[0](self.stem(image)))
        for convolution, norm in zip(self.convolutions, self.norms[1:], strict=True):
            branch = norm(convolution(x))
            branch += x
            x = self.activation(self.dropout(branch)) * 2
        return functional.cross_entropy(self.head(x.mean((2, 3))), label)


def _of_text(make: Callable[[Any], Any]) -> SmallStep:
    import transformers

    module = make(transformers).train()
    tokens = torch.randint(0, VOCABULARY, (4, 24))
    return SmallStep(module, lambda: module(input_ids=tokens, labels=tokens).loss)


def _bert(library: Any) -> Any:
    settings = library.BertConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=128,
        vocab_size=VOCABULARY,
    )  # fmt: skip
    return library.BertForMaskedLM(settings)


def _gpt2(library: Any) -> Any:
    settings = library.GPT2Config(
        n_layer=2, n_embd=32, n_head=2, vocab_size=VOCABULARY, n_positions=32,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return library.GPT2LMHeadModel(settings)


def _llama(library: Any) -> Any:
    settings = library.LlamaConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=64, vocab_size=VOCABULARY,
    )  # fmt: skip
    return library.LlamaForCausalLM(settings)


def _vit() -> SmallStep:
    from transformers import ViTConfig, ViTForImageClassification

    settings = ViTConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=128,
        image_size=16, patch_size=4, num_labels=CLASSES, hidden_dropout_prob=0.1,
    )  # fmt: skip
    module = ViTForImageClassification(settings).train()
    image, label = torch.randn(4, 3, 16, 16), torch.randint(0, CLASSES, (4,))
    return SmallStep(module, lambda: module(pixel_values=image, labels=label).loss)


def _resnet() -> SmallStep:
    module = Residual().train()
    image, label = torch.randn(4, 3, 16, 16), torch.randint(0, CLASSES, (4,))
    return SmallStep(module, lambda: module(image, label))


SMALL_STEPS: dict[str, Callable[[], SmallStep]] = {
    "bert": lambda: _of_text(_bert),
    "gpt2": lambda: _of_text(_gpt2),
    "llama": lambda: _of_text(_llama),
    "vit": _vit,
    "resnet": _resnet,
}


def small_step(name: str) -> SmallStep:
    """Build a small model, always with the same weights and batch."""
    torch.manual_seed(0)
    return SMALL_STEPS[name]()
