"""The trainings of the scripts beside this file, each written as a function that makes a step."""

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification


def batch():
    return torch.zeros(16, 64, device="cuda"), torch.zeros(16, dtype=torch.int64, device="cuda")


def network():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


def plain_loop():
    model = network().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        x, y = batch()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return step


lightning_module = plain_loop


def accelerated():
    model = network().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())

    def scores(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(x)

    def step():
        for _ in range(2):
            x, y = batch()
            (functional.cross_entropy(scores(x).float(), y) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def trainer():
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    )
    model = BertForSequenceClassification(config).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        tokens = torch.zeros(8, 32, dtype=torch.int64, device="cuda")
        labels = torch.zeros(8, dtype=torch.int64, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def sharded():
    model = network()
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        x, y = batch()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
