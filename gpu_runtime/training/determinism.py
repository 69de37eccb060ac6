"""Runs that compute the same bits for the same inputs, and digests of their results."""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from planners.errors import GaplessError

HASHING_THREADS = 4

_REFUSAL = re.compile(r"(\w+)(?: \w+)? does not have a deterministic implementation")


class UndeterminedError(GaplessError):
    """An operator has no deterministic algorithm."""

    def __init__(self, operator: str) -> None:
        super().__init__(f"{operator} has no deterministic algorithm")
        self.operator = operator


def exact(loss: Tensor) -> str:
    """Return every bit of a scalar, as a hexadecimal float; of a NaN also its bits."""
    number = float(loss.item())
    return f"nan {_bytes_of(loss.detach().cpu()).hex()}" if math.isnan(number) else number.hex()


def digests(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, str]:
    """Return the SHA-256 of the bytes of each tensor, by name."""
    with ThreadPoolExecutor(HASHING_THREADS) as threads:
        # Tensors are copied one after the other and hashed in parallel.
        running = {name: threads.submit(_digest, tensor.detach().cpu()) for name, tensor in tensors}
        return {name: digest.result() for name, digest in running.items()}


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(_bytes_of(tensor)).hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    data: memoryview = flat.numpy().data
    return data


@contextmanager
def deterministic(*, strict: bool) -> Iterator[NotedOperators]:
    """Within this context the same inputs give the same bits, or PyTorch refuses.

    If PyTorch may not refuse, attention uses plain matrix products: its fused kernels are then not
    deterministic.
    """
    cudnn = torch.backends.cudnn
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.deterministic,
        cudnn.benchmark,
    )
    torch.use_deterministic_algorithms(True, warn_only=not strict)
    cudnn.deterministic, cudnn.benchmark = True, False
    fused = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION] if strict else []
    with warnings.catch_warnings(record=True) as caught, sdpa_kernel([*fused, SDPBackend.MATH]):
        warnings.simplefilter("always")
        try:
            yield NotedOperators(caught)
        except RuntimeError as error:
            refusal = _REFUSAL.search(str(error))
            if refusal is None:
                raise
            raise UndeterminedError(refusal[1]) from None
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
            cudnn.deterministic, cudnn.benchmark = before[2:]


class NotedOperators:
    """The operators without a deterministic form, which PyTorch warned of."""

    def __init__(self, caught: list[warnings.WarningMessage]) -> None:
        self._caught = caught

    def __call__(self) -> list[str]:
        found = (_REFUSAL.search(str(warning.message)) for warning in self._caught)
        return sorted({match[1] for match in found if match})
