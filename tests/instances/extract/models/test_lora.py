"""Weights of peft beside frozen ones, and recomputation that keeps some results."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from instances.extract.models import find_model
from instances.extract.record.recording import record
from instances.extract.record.trace_settings import TraceSettings
from instances.traces.allocation_trace import AllocationTrace
from planners.errors import GaplessError, InstanceError

pytestmark = pytest.mark.torch

SETTINGS = TraceSettings(steps=2, precision="bfloat16")
SHAPE = {"layers": 2, "batch": 2, "seq": 64}


def bytes_of_weights(trace: AllocationTrace) -> int:
    return int(trace.size[trace.alloc < trace.mark_event[0]].sum())


def test_only_the_added_weights_are_trained() -> None:
    from instances.extract.models.building import build_module

    model = find_model("llama-1b")
    settings = model.settings(layers=2, lora="r=8,target_modules=.*q_proj", precision="bfloat16")
    with FakeTensorMode():
        module, _ = build_module(model, settings)
    trained = [one for one in module.parameters() if one.requires_grad]
    # Two layers, each with two matrices of 8 x 2048.
    assert [(one.numel(), one.dtype) for one in trained] == 4 * [(8 * 2048, torch.float32)]
    frozen = [one for one in module.parameters() if not one.requires_grad]
    assert {one.dtype for one in frozen} == {torch.bfloat16}


@pytest.mark.parametrize("name", ["llama-1b", "bert-base"])
def test_frozen_weights_have_no_gradients_and_no_state(name: str) -> None:
    plain, added = (record(name, SETTINGS, lora=lora, **SHAPE) for lora in (None, "r=4"))
    # Gradients and two moments of all weights are requested in the first step.
    assert int(plain.size.sum()) - int(added.size.sum()) > 3 * bytes_of_weights(plain) > 0
    assert added.origin["lora"] == "r=4"
    assert "--lora r=4" in str(added.origin["command"])
    assert "lora" not in plain.origin


def test_weights_of_four_bits_are_written_down_in_both_passes() -> None:
    settings = TraceSettings(steps=2, precision="autocast-bfloat16-weights")
    lora = "r=4,target_modules=all-linear"
    wide, packed = (
        record("llama-1b", settings, lora=lora + bits, **SHAPE) for bits in ("", ",bits=4")
    )
    # Of each of the two layers: queries and the output, keys and values, and the perceptron.
    weights = 2 * (2 * 2048**2 + 2 * 512 * 2048 + 3 * 8192 * 2048)
    scales = weights // 64
    assert (
        bytes_of_weights(wide) - bytes_of_weights(packed)
        == 2 * weights - weights // 2 - scales - 4 * scales // 256
    )
    largest = 2 * 8192 * 2048
    steps = packed.size[packed.alloc > packed.mark_event[0]]
    # Three layers of two write as many bytes, forward and backward, in each of two steps.
    assert np.count_nonzero(steps == largest) >= 2 * 3 * 2 * 2
    with pytest.raises(InstanceError, match="bits: 4 or nothing is needed, found 8"):
        record("llama-1b", settings, lora="r=4,bits=8", **SHAPE)


def test_names_are_listed_or_one_alone() -> None:
    """The names of a Llama are its queries and values by default."""
    sizes = {
        lora: int(record("llama-1b", SETTINGS, lora=f"r=4{lora}", **SHAPE).size.sum())
        for lora in (
            "", ",target_modules=[q_proj,v_proj]", ',target_modules=["q_proj", "v_proj"]',
            ",target_modules=q_proj", ",target_modules=.*q_proj", ",modules_to_save=lm_head",
            ",modules_to_save=[lm_head]", ",target_modules=[q_proj],layers_to_transform=[0]",
        )
    }  # fmt: skip
    default, listed, quoted, alone, pattern, saved, saved_list, first = sizes.values()
    assert first < alone == pattern < default == listed == quoted < saved == saved_list


@pytest.mark.parametrize(
    ("lora", "said"),
    [
        ("r", "--lora: NAME=VALUE is needed, such as batch=16, found 'r'"),
        ("rank=4", "--lora rank=4: peft: TypeError"),
        ("r=4,target_modules=none", "--lora r=4,target_modules=none: peft: "),
    ],
)
def test_settings_that_peft_does_not_know(lora: str, said: str) -> None:
    with pytest.raises(InstanceError) as caught:
        record("llama-1b", SETTINGS, lora=lora, **SHAPE)
    assert str(caught.value).startswith(said)


def live_peak(**options: bool | None) -> int:
    # Many tokens, so that activations are most of the memory.
    trace = record("bert-base", SETTINGS, layers=2, batch=32, seq=512, **options)
    change = np.zeros(trace.event_count + 1, dtype=np.int64)
    np.add.at(change, trace.alloc, trace.size)
    np.add.at(change, trace.free_requested, -trace.size)
    return int(np.cumsum(change).max())


def test_selective_recomputation_keeps_products() -> None:
    full = live_peak(checkpointing=True)
    selective = live_peak(checkpointing=True, selective=True)
    assert full < selective < live_peak()
    # Of each layer at least: query, key, value, attention and its projection, and the two products
    # of 4 x 768 and 768 columns, for 16,384 tokens in bfloat16. The layers before the last keep
    # them until then.
    assert selective - full >= 16_384 * (5 * 768 + 5 * 768) * 2


def test_selective_needs_checkpointing() -> None:
    with pytest.raises(GaplessError, match="setting selective: checkpointing is needed"):
        find_model("bert-base").settings(selective=True)
