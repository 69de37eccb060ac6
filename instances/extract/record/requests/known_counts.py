"""How many rows go to each expert: values that a trace takes to be known.

Note: even counts
-----------------
Rationale. A mixture of experts counts the tokens of each expert, and the counts are the lengths of
what it makes and sends. Fake tensors have no values, yet the sum of the counts is known: it is the
number of tokens that were counted.

Approach. Each count is the same share of the sum. Fake tensors hold the counts as constants, and
PyTorch computes with those. An all-to-all of counts tells a rank what it will receive: its own
experts get the stated number of times their share, from each rank.

Limits. Counts that are gathered from all ranks are not known.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

EVEN = "experts: each gets an even share of the tokens, times {:g} if other ranks send them"
# By operator, the place of the number of counts among its arguments.
COUNTS = {"bincount.default": 2, "histc.default": 1}
REPEAT = "repeat_interleave.Tensor"
# By operator, the place of what a rank sends.
EXCHANGES = {"alltoall_base_.default": 1, "all_to_all_single.default": 0}
# Most counts that PyTorch computes with; a guess.
MOST_COUNTS = 4096
_holds_one: Any = FakeTensorMode.may_turn_const


def counted(name: str, args: tuple[Any, ...]) -> Any:
    """Return the result of an operator that counts rows, or repeats by counts; None of others."""
    if name == REPEAT and (repeats := known_values(args[0])) is not None:
        with _disable_current_modes():
            length = int(repeats.sum())
        return args[0].new_empty(length)
    if name not in COUNTS or len(args) <= COUNTS[name] or args[0].is_floating_point():
        return None
    fake = compute_with_counts()
    bins, total = args[COUNTS[name]], args[0].numel()
    with _disable_current_modes():
        counts = torch.full((bins,), total // bins, dtype=args[0].dtype)
        counts[: total % bins] += 1
    return fake.fake_tensor_converter.from_real_tensor(fake, counts, make_constant=True)


def compute_with_counts() -> Any:
    """Let PyTorch compute from now on with whole numbers that are known; return the mode."""
    fake: Any = detect_fake_mode()

    def is_held(one: Tensor) -> bool:
        is_count = type(one) is Tensor and not (one.is_floating_point() or one.is_meta)
        return bool((is_count and one.numel() <= MOST_COUNTS) or _holds_one(fake, one))

    fake.may_turn_const = is_held
    return fake


def known_values(tensor: Any) -> Tensor | None:
    """Return the values of a fake tensor, if they are known."""
    return getattr(tensor, "constant", None)


def sent_by(name: str, args: tuple[Any, ...]) -> Tensor | None:
    """Return the known counts that an operator sends to other ranks."""
    return known_values(args[EXCHANGES[name]]) if name in EXCHANGES else None


def exchange(sent: Tensor, result: Any, imbalance: float) -> None:
    """Note what a rank receives if it sends known counts, as all others do."""
    if result.shape == sent.shape:
        with _disable_current_modes():
            result.constant = (sent * imbalance).ceil().to(sent.dtype)
