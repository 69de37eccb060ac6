"""Runs the step of a model within a limit of memory, and measures its predicted peak and time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.measuring.cores import use_every_core
from evaluation.measuring.kernel_times import kernel_seconds
from evaluation.measuring.step_meter import StepMeter
from gpu_runtime import PlannedMemory
from gpu_runtime.repeating import Decision, KeptWithin, RepeatedRuns, problem_of, record_step
from gpu_runtime.training.determinism import deterministic, digests
from gpu_runtime.training.model_program import RandomBatches
from gpu_runtime.training.training_run import RegisteredModel
from instances.extract.models import find_model
from instances.extract.models.building import build_module
from planners.model.problem import Scalar
from planners.recompute import RepeatableStep, device_rates

# Steps before a measured one. The first starts the libraries, and planned memory plans from two.
WARM_UPS, PLANNED_WARM_UPS = 2, 6
# Measured steps, whose median counts.
REPETITIONS = 5


@dataclass(frozen=True)
class AskedStep:
    """A step of a model, and how it runs."""

    training: str
    # The limit, as a share of what the peak has beyond the gradients; None for no limit.
    share: float | None
    # True if every block runs again, as `torch.utils.checkpoint` does it.
    every_block: bool
    is_planned: bool
    device: str
    seed: int
    # Time limit of the planner that decides which kernels run again.
    planner_seconds: float


def measure(asked: AskedStep) -> tuple[int, dict[str, Scalar]]:
    """Return the measured peak of a step, and all other figures.

    The peak counts the tensors that the step makes, gradients included.
    """
    # The autograd engine has a thread of its own.
    use_every_core()
    # Read when CUDA begins. Without it, matrix products are not deterministic.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if asked.device == "cpu":
        # The threads of a process that forks are not in its child, which would wait for them.
        torch.set_num_threads(1)
    # By default PyTorch fills new tensors under deterministic algorithms, which takes time.
    choices: Any = torch.utils.deterministic
    choices.fill_uninitialized_memory = False
    memory = PlannedMemory(time_limit=3.0, _planning="between") if asked.is_planned else None
    if memory is not None:
        memory.install()
    with deterministic(strict=True):
        return _LimitedStep(asked, memory).measure()


class _LimitedStep:
    def __init__(self, asked: AskedStep, memory: PlannedMemory | None) -> None:
        self._asked, self._memory = asked, memory
        self._meter = StepMeter(asked.device)
        its = RegisteredModel.read(asked.training)
        model = find_model(its.name)
        settings = model.settings(
            **{**its.shape, "checkpointing": asked.every_block},
            precision=its.settings.weights_precision,
        )
        torch.manual_seed(asked.seed)
        module, batch = build_module(model, settings, is_computed=True)
        self._module: Any = module.to(asked.device)
        self._batch = RandomBatches(self._module, batch, asked.seed, asked.device).next()
        self._decision: Decision | None = None
        on = torch.cuda.get_device_name() if asked.device == "cuda" else "CPU"
        self._figures: dict[str, Scalar] = {"device": on}

    def measure(self) -> tuple[int, dict[str, Scalar]]:
        if not self._asked.every_block:
            self._decide()
        memory = self._memory
        for _ in range(WARM_UPS if memory is None else PLANNED_WARM_UPS):
            self._run_once()
        if memory is None:
            self._figures["reserved"] = self._meter.reserved_bytes(self._run_once)
        else:
            memory.reset_peaks()
        peak = self._meter.peak_bytes(self._run_once)
        self._figures["step_seconds"] = self._meter.seconds(self._run_once, REPETITIONS)
        if memory is not None:
            report = memory.report()
            self._figures["reserved"] = report.reserved_bytes
            self._figures["is_served"] = report.planned_steps == report.steps
        self._figures["bits"] = self._digest()
        if self._decision and memory is None and self._asked.device == "cuda":
            self._try_with_less()
        return peak, self._figures

    def _plain_loss(self) -> Any:
        return self._module(**self._batch).loss

    def _loss(self) -> Any:
        if self._decision is None:
            return self._plain_loss()
        with RepeatedRuns(self._decision, strict=True):
            return self._plain_loss()

    def _run_once(self) -> None:
        with nullcontext() if self._memory is None else self._memory.step():
            self._loss().backward()
            self._module.zero_grad(set_to_none=True)

    def _decide(self) -> None:
        """Predict the peak of the step, and decide what runs again if there is a limit."""
        recorded = RepeatableStep(problem_of(record_step(self._plain_loss)), device_rates("h100"))
        live = recorded.live_bytes
        whole, gradients = int(live.max()), int(live[-1])
        self._figures |= {"whole": whole, "predicted": whole}
        if self._asked.share is None:
            return
        limit = gradients + int(self._asked.share * (whole - gradients))
        kept = KeptWithin(
            self._plain_loss, limit, time_limit=self._asked.planner_seconds, strict=True
        )
        decision = self._decision = kept.decision()
        self._figures |= {
            "limit": limit,
            "predicted": decision.peak,
            "predicted_seconds": decision.extra_seconds,
            "repeated": decision.repeated_count,
        }
        if self._memory is None:
            profiles = [kernel_seconds(self._plain_loss, self._asked.device) for _ in range(3)]
            times = [sorted(each)[1] for each in zip(*profiles, strict=True)]
            again = zip(times, decision.unit, strict=True)
            self._figures["profiled_seconds"] = sum(its for its, unit in again if unit >= 0)

    def _digest(self) -> str:
        torch.manual_seed(self._asked.seed + 1)
        loss = self._loss()
        loss.backward()
        named = self._module.named_parameters()
        gradients = {name: each.grad for name, each in named if each.grad is not None}
        found = digests([("loss", loss), *gradients.items()])
        self._module.zero_grad(set_to_none=True)
        return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()

    def _try_with_less(self) -> None:
        """Allow the process too few bytes for the step as it is, and try both."""
        needed = (int(self._figures["predicted"]) + int(self._figures["whole"])) // 2
        allowed = torch.cuda.memory_allocated() + needed
        with _at_most(allowed):
            self._figures |= {
                "allowed": allowed,
                "ending_as_it_is": self._ending(self._plain_loss),
                "ending": self._ending(self._loss),
            }

    def _ending(self, loss_of: Callable[[], Any]) -> str:
        try:
            loss_of().backward()
            self._meter.wait()
        except torch.cuda.OutOfMemoryError:
            return "out of memory"
        finally:
            self._module.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
        return "ran"


@contextmanager
def _at_most(count: int) -> Iterator[None]:
    """Let the process reserve at most so many bytes of the GPU."""
    cuda = torch.cuda
    cuda.empty_cache()
    cuda.set_per_process_memory_fraction(count / cuda.get_device_properties(0).total_memory)
    try:
        yield
    finally:
        cuda.set_per_process_memory_fraction(1.0)
