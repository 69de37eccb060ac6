"""Keeps the forward and backward pass of a user's loss within a limit of memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from gpu_runtime.repeating.decision import (
    Decision,
    decision_of_choice,
    decision_of_sequence,
)
from gpu_runtime.repeating.recorded_step import record_step
from gpu_runtime.repeating.repeated_runs import RepeatedRuns
from gpu_runtime.repeating.step_problem import problem_of
from planners.errors import GaplessError
from planners.files.formats import read_problem
from planners.files.problem_file import SUFFIXES
from planners.model.budget import Budget
from planners.recompute import (
    DeviceRates,
    ForwardChoice,
    LimitQuestion,
    RepeatableStep,
    choose_planners,
    device_rates,
    forward_choice_of,
    least_limit,
    run_under_limit,
    staged_bound,
)
from planners.text.byte_units import human_bytes, parse_bytes


class KeptWithin:
    """A function that returns a loss, whose passes keep within a limit.

    Parameters
    ----------
    loss_of
        Runs the forward pass, and returns the loss.
    limit
        The most bytes of tensors that the forward and backward pass make, gradients included, or a
        text such as ``"3GiB"``. Parameters, optimizer state and the batch are there besides. Or the
        file that ``gapless instances recompute -o`` wrote: its kernels run again, and its limit
        holds. Where they do not keep this step within it, because PyTorch picks other kernels here,
        the choice is made anew, with a warning.
    planner
        Name of the budget planner.
    device
        Name of the device whose rates decide what is cheap to run again, or its rates.
    time_limit
        Seconds that the planner may take, once for all batches of the same shapes.
    strict
        Whether a forward pass with other kernels than before, or than those of the file, is an
        error, see :class:`RepeatedRuns`.

    Raises
    ------
    GaplessError
        The file has no answer. At the first call with some shapes: the step cannot be kept within
        the limit.
    """

    def __init__(
        self,
        loss_of: Callable[..., Tensor],
        limit: int | str | Path,
        *,
        planner: str = "local-search",
        device: str | DeviceRates = "h100",
        time_limit: float = 5.0,
        strict: bool = False,
    ) -> None:
        self._loss_of = loss_of
        self._choice: ForwardChoice | None = None
        if isinstance(limit, Path) or (isinstance(limit, str) and limit.endswith(SUFFIXES)):
            self._choice = forward_choice_of(read_problem(limit))
            limit = self._choice.limit
        self._limit = parse_bytes("limit", limit) if isinstance(limit, str) else limit
        (self._planner,) = choose_planners(planner)
        self._rates = device_rates(device) if isinstance(device, str) else device
        self._time_limit = time_limit
        self._strict = strict
        self._decisions: dict[Hashable, Decision] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run the forward pass, and return the loss, whose backward pass keeps within the limit."""
        decision = self.decision(*args, **kwargs)
        if not decision.repeated_count:
            return self._loss_of(*args, **kwargs)
        with RepeatedRuns(decision, strict=self._strict):
            return self._loss_of(*args, **kwargs)

    def decision(self, *args: Any, **kwargs: Any) -> Decision:
        """Return which kernels run again for arguments of these shapes, without running any."""
        leaves, form = pytree.tree_flatten((args, kwargs))
        key = (tuple(map(_shown, leaves)), form, torch.is_autocast_enabled())
        if key not in self._decisions:
            recorded = record_step(lambda: self._loss_of(*args, **kwargs))
            step = RepeatableStep(problem_of(recorded), self._rates)
            choice = self._choice
            made = None if choice is None else self._followed(step, choice)
            self._decisions[key] = made or self._decide(step)
        return self._decisions[key]

    def _followed(self, step: RepeatableStep, choice: ForwardChoice) -> Decision | None:
        """Return the decision of a file; None if it does not keep this step within its limit."""
        decision, lacking = decision_of_choice(step, choice)
        is_met = decision.peak <= choice.limit
        if is_met and not lacking:
            return decision
        text = (
            f"{lacking} of {sum(choice.again)} kernels that run again in the file have no "
            f"counterpart in this forward pass, by whose choice {human_bytes(decision.peak)} are "
            f"live at the peak, of {human_bytes(choice.limit)}"
        )
        if self._strict:
            raise GaplessError(f"limit: {text}")
        what = "they are kept" if is_met else "which kernels run again is decided anew"
        warnings.warn(f"{text}; {what}", stacklevel=4)
        return decision if is_met else None

    def _decide(self, step: RepeatableStep) -> Decision:
        budget = Budget(time_limit_seconds=self._time_limit)
        bound = staged_bound(step, self._limit, budget.started())
        question = LimitQuestion(step, self._limit, budget, bound)
        result = run_under_limit(question, self._planner)
        if result.sequence is None:
            least = least_limit(step, budget.started())
            raise GaplessError(
                f"limit: {human_bytes(self._limit)} is too small for {self._planner.name} "
                f"({result.reason}); no step is within less than {human_bytes(least)}"
            )
        return decision_of_sequence(step, result.sequence)


def _shown(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.shape, leaf.dtype, leaf.device, leaf.requires_grad
    return leaf if leaf.__hash__ is not None else type(leaf)
