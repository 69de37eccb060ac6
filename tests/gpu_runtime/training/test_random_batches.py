"""Batches are seeded, within the model's range, and new each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.gpu_runtime.training.tiny_bert import VOCABULARY, build

if TYPE_CHECKING:
    from gpu_runtime.training.model_program import RandomBatches

pytestmark = pytest.mark.torch


def tiny_batches(seed: int = 0, seq: int = 16) -> RandomBatches:
    from gpu_runtime.training.model_program import RandomBatches
    from instances.extract.step_settings import StepSettings

    module, batch = build(StepSettings(batch=50, seq=seq))
    return RandomBatches(module, batch, seed, "cpu")


def test_tokens_are_of_the_vocabulary_and_are_their_own_labels() -> None:
    inputs = tiny_batches().next()
    # What a full batch does without is left out.
    assert list(inputs) == ["input_ids", "labels"]
    assert inputs["labels"] is inputs["input_ids"]
    tokens = inputs["input_ids"]
    assert tokens.shape == (50, 16)
    assert sorted(tokens.unique().tolist()) == list(range(VOCABULARY))


def test_the_seed_decides_and_every_microbatch_is_new() -> None:
    import torch

    one, same, other = tiny_batches(), tiny_batches(), tiny_batches(seed=1)
    torch.manual_seed(99)
    first, second = one.next()["input_ids"], one.next()["input_ids"]
    assert not torch.equal(first, second)
    torch.rand(3)
    assert torch.equal(first, same.next()["input_ids"])
    assert torch.equal(second, same.next()["input_ids"])
    assert not torch.equal(first, other.next()["input_ids"])


def test_drawn_batches_come_in_turns() -> None:
    import torch

    fresh, turns = tiny_batches(), tiny_batches().repeated(2)
    drawn = [fresh.next()["input_ids"] for _ in range(2)]
    for expected in (*drawn, *drawn):
        assert torch.equal(turns()["input_ids"], expected)


def test_images_are_labelled_by_class() -> None:
    import torch

    from gpu_runtime.training.model_program import RandomBatches

    class Classifier(torch.nn.Module):
        config = type("Config", (), {"num_labels": 7})

        def forward(self, pixel_values: Any, labels: Any) -> None: ...

    batch = {"pixel_values": torch.zeros(200, 3, 4, 4, dtype=torch.bfloat16),
             "labels": torch.zeros(200, dtype=torch.int64)}  # fmt: skip
    inputs = RandomBatches(Classifier(), batch, 0, "cpu").next()
    assert inputs["pixel_values"].dtype == torch.bfloat16
    assert 0 <= inputs["pixel_values"].min() < inputs["pixel_values"].max() <= 1
    assert sorted(inputs["labels"].unique().tolist()) == list(range(7))


def test_a_mask_that_is_needed_hides_nothing() -> None:
    import torch

    from gpu_runtime.training.model_program import RandomBatches

    class Masked(torch.nn.Module):
        def forward(self, attention_mask: Any) -> None: ...

    batch = {"attention_mask": torch.zeros(2, 3, dtype=torch.int64)}
    assert RandomBatches(Masked(), batch, 0, "cpu").next()["attention_mask"].all()
