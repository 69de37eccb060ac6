"""CUDA's casts on CPU tensors: dtypes of results, copies that are made, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from instances.extract.record.gpu.cuda_autocast import cuda_autocast_on_cpu

pytestmark = pytest.mark.torch


@pytest.fixture
def casting() -> Iterator[None]:
    with cuda_autocast_on_cpu(), torch.autocast("cpu", dtype=torch.bfloat16):
        yield


@pytest.mark.usefixtures("casting")
def test_products_are_bfloat16_and_norms_float32() -> None:
    x, w = torch.ones(2, 4), torch.ones(3, 4)
    product = functional.linear(x, w)
    assert product.dtype == torch.bfloat16
    assert functional.layer_norm(product, (3,)).dtype == torch.float32
    assert product.softmax(-1).dtype == torch.float32
    assert product.pow(2).dtype == torch.float32
    assert product.sum().dtype == torch.float32
    assert functional.gelu(product).dtype == torch.bfloat16
    assert torch.addcmul(product, product, product.float()).dtype == torch.float32
    assert torch.mv(w, x[0]).dtype == torch.bfloat16


@pytest.mark.usefixtures("casting")
def test_a_dtype_that_is_asked_for_stands() -> None:
    x = torch.ones(2, 4, dtype=torch.bfloat16)
    assert x.softmax(-1, dtype=torch.float64).dtype == torch.float64
    assert x.sum(0, dtype=torch.bfloat16).dtype == torch.bfloat16
    assert torch.exp(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.usefixtures("casting")
def test_cross_entropy_is_cast_between_its_parts() -> None:
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            seen.append((func.overloadpacket.__name__, args[0].dtype))
            return result

    logits, classes = torch.ones(2, 4, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.int64)
    with Log():
        functional.cross_entropy(logits, classes)
    # The softmax stays in bfloat16, for cross-entropy asks for the dtype of its input.
    assert [name for name, dtype in seen if dtype == torch.bfloat16] == ["_log_softmax", "_to_copy"]
    assert ("nll_loss_forward", torch.float32) in seen


@pytest.mark.usefixtures("casting")
def test_gradients_flow_through_the_casts() -> None:
    x = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.bfloat16, requires_grad=True)
    functional.layer_norm(x, (3,)).pow(2).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.bfloat16


def test_leaving_restores_the_casts_of_the_cpu() -> None:
    def dtypes() -> list[torch.dtype]:
        x = torch.ones(2, 3, dtype=torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            norm = functional.layer_norm(x, (3,))
            return [norm.dtype, x.pow(2).dtype, torch.stack([x, x.float()]).dtype]

    before = dtypes()
    with cuda_autocast_on_cpu():
        assert dtypes() != before
    assert dtypes() == before


def test_without_autocast_nothing_is_cast() -> None:
    x = torch.ones(2, 3, dtype=torch.bfloat16)
    with cuda_autocast_on_cpu():
        assert functional.layer_norm(x, (3,)).dtype == torch.bfloat16
