"""Scripts as users write them."""

from __future__ import annotations

from pathlib import Path

NETWORK = """
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from transformers.modeling_outputs import MaskedLMOutput

from instances.extract import TrainingStep


@dataclass
class Answer:
    loss: torch.Tensor
    scores: torch.Tensor


class Network(nn.Module):
    def __init__(self, returns="tensor"):
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 4)
        self.returns = returns

    def forward(self, x, labels=None):
        scores = self.second(functional.relu(self.first(x)))
        if labels is None:
            return {"scores": scores}
        loss = functional.cross_entropy(scores, labels)
        return {
            "tensor": lambda: loss,
            "tuple": lambda: (loss, scores),
            "list": lambda: [loss, scores],
            "dict": lambda: {"scores": scores, "loss": loss},
            "dataclass": lambda: Answer(loss, scores),
            "ModelOutput": lambda: MaskedLMOutput(loss=loss, logits=scores),
            "scores": lambda: scores,
        }[self.returns]()


def data(batch):
    return torch.randn(batch, 16), torch.zeros(batch, dtype=torch.int64)
"""

STEP = (
    NETWORK
    + """

def make_step(batch: int = 8, returns="tensor"):
    network = Network(returns)
    return TrainingStep(network, data(batch), torch.optim.SGD(network.parameters()))


def make_loss(batch: int = 8):
    network = Network()
    x, labels = data(batch)
    return TrainingStep(
        network,
        x,
        torch.optim.SGD(network.parameters()),
        loss=lambda output, labels: functional.cross_entropy(output["scores"], labels),
        targets=labels,
    )
"""
)

LOOP = (
    NETWORK
    + """

def make_step(batch: int = 8, parts: int = 2):
    device = "cuda"
    network = Network().to(device)
    optimizer = torch.optim.AdamW(network.parameters())

    def step():
        for _ in range(parts):
            x, labels = (tensor.to(device) for tensor in data(batch // parts))
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = network(x, labels) / parts
            loss.backward()
        print(f"loss {loss.item():.3f}")
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step
"""
)

BERT = """
import torch
from transformers import BertConfig, BertForMaskedLM


def make_step(layers=1, batch=2, seq=16):
    model = BertForMaskedLM(BertConfig(num_hidden_layers=layers)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        tokens = torch.zeros(batch, seq, dtype=torch.int64, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        del tokens
        loss.backward()
        del loss
        optimizer.step()
        optimizer.zero_grad()

    return step
"""

MODEL = """
from transformers import BertConfig, BertForMaskedLM

from instances.extract.models import register
from instances.extract.models.tokens import token_batch
from instances.extract.step_settings import StepSettings


@register("small-bert", "BertForMaskedLM of one layer", StepSettings(batch=2, seq=8))
def small_bert(settings):
    config = BertConfig(num_hidden_layers=1, hidden_size=8, num_attention_heads=2)
    return BertForMaskedLM(config), token_batch(settings, "input_ids")
"""


def written(folder: Path, text: str, name: str = "my_script.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
