"""Runs registered models within limits of memory, and measures what was predicted."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from evaluation.measuring.cores import use_every_core
from planners.errors import GaplessError
from planners.processes.isolated_process import answer_apart

# Limits, as shares of what the peak has beyond the gradients.
SHARES = (0.8, 0.6, 0.4)
# Before a step is measured: the first begins the libraries, and planned memory plans from two.
WARM_UPS, PLANNED_WARM_UPS = 2, 6
AS_IT_IS, EVERY_BLOCK = "as it is", "every block again"


@dataclass(frozen=True)
class LimitedModel:
    """A registered model, and its settings on a GPU and for a check on the CPU."""

    name: str
    settings: Mapping[str, Any]
    tiny: Mapping[str, Any]


MODELS = {
    model.name: model
    for model in (
        LimitedModel("bert-base", {"batch": 32, "seq": 512}, {"batch": 16, "seq": 64, "layers": 1}),
        LimitedModel(
            "gpt2-medium", {"batch": 8, "precision": "bfloat16"},
            {"batch": 4, "seq": 256, "layers": 1},
        ),
        LimitedModel("llama-1b", {"batch": 4}, {"batch": 1, "seq": 64, "layers": 1}),
        LimitedModel("vit-base", {"batch": 128}, {"batch": 32, "image": 112, "layers": 2}),
    )
}  # fmt: skip


@dataclass
class MeasuredStep:
    """One way to run the step of a model.

    Parameters
    ----------
    way
        How it ran, such as ``"80 %"``.
    limit, predicted_bytes, predicted_seconds, profiled_seconds
        The limit, the predicted peak, and the predicted seconds more: by the device's rates, and
        by a profile on this device. 0 where there is no limit.
    decision
        The fields of the decision that it ran by; empty where there is no limit.
    peak_bytes, reserved_bytes, seconds
        Measured: the peak without what was there before, the most reserved bytes with all, and the
        median.
    same_bits
        Whether loss and gradients have the bits of the step as it is.
    is_planned
        Whether planned memory had a plan for every measured step.
    refused
        Why there is nothing more; empty if it ran.
    """

    way: str
    limit: int = 0
    predicted_bytes: int = 0
    predicted_seconds: float = 0.0
    profiled_seconds: float = 0.0
    decision: dict[str, Any] = field(default_factory=dict)
    peak_bytes: int = 0
    reserved_bytes: int = 0
    seconds: float = 0.0
    same_bits: bool = False
    is_planned: bool = False
    refused: str = ""


@dataclass
class LimitedRun:
    """The ways to run the step of one model below one allocator."""

    model: str
    settings: Mapping[str, Any]
    device: str
    is_planned: bool
    steps: list[MeasuredStep] = field(default_factory=list)
    # Of loss and gradients of the step as it is, below PyTorch's allocator.
    digest: str = ""
    # Bytes that a process may reserve, and how each step ended that tried: text by way.
    allowed_bytes: int = 0
    within_allowed: dict[str, str] = field(default_factory=dict)


def run_apart(
    model: LimitedModel,
    device: str,
    repetitions: int,
    seconds: float,
    decided: LimitedRun | None = None,
) -> LimitedRun:
    """Measure a model in a process of its own, with planners that take some seconds.

    With an earlier run, its decisions are measured again below planned memory.
    """

    def call() -> dict[str, Any]:
        run = _Measuring(model, device, decided is not None, repetitions, seconds).run(decided)
        return {"run": json.dumps(run, default=vars)}

    return run_of_record(json.loads(answer_apart(model.name, call, {"run": str})["run"]))


def run_of_record(record: Mapping[str, Any]) -> LimitedRun:
    """Return the run of a record, which ``json.dumps(run, default=vars)`` writes."""
    steps = [MeasuredStep(**step) for step in record["steps"]]
    return LimitedRun(**{**record, "steps": steps})


class _Measuring:
    """Measures one model in this process."""

    def __init__(
        self, model: LimitedModel, device: str, is_planned: bool, repetitions: int, seconds: float
    ) -> None:
        # The autograd engine has a thread of its own.
        use_every_core()
        # Read when CUDA begins. Without it, matrix products are not deterministic.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        import torch

        from evaluation.measuring.step_meter import StepMeter

        if device == "cpu":
            # The threads of a process that forks are not in its child, which would wait for them.
            torch.set_num_threads(1)
        self._torch = torch
        # By default PyTorch fills new tensors under deterministic algorithms, which takes time.
        choices: Any = torch.utils.deterministic
        choices.fill_uninitialized_memory = False
        self._model, self._device = model, device
        self._settings = model.settings if device == "cuda" else model.tiny
        self._repetitions, self._planner_seconds = repetitions, seconds
        self._meter = StepMeter(device)
        self._memory: Any = None
        if is_planned:
            from gpu_runtime import PlannedMemory

            self._memory = PlannedMemory(time_limit=3.0, _planning="between")
            self._memory.install()
        self._module: Any = None
        self._batch: dict[str, Any] = {}
        kind = torch.cuda.get_device_name() if device == "cuda" else "CPU"
        self._run = LimitedRun(model.name, dict(self._settings), kind, is_planned)

    def run(self, decided: LimitedRun | None) -> LimitedRun:
        """Measure all ways to run the step."""
        from gpu_runtime.training.determinism import deterministic

        with deterministic(strict=True):
            self._build(checkpointing=False)
            if decided is None:
                self._measure_all()
            else:
                self._run.digest = decided.digest
                # The largest last, because all kinds of step share one arena.
                for step in decided.steps[-2::-1]:
                    self._measure(step)
                self._run.steps.reverse()
        return self._run

    def _measure_all(self) -> None:
        self._measure(MeasuredStep(AS_IT_IS))
        steps = self._decide()
        for step in steps:
            self._measure(step)
        if self._device == "cuda":
            self._try_allowed([step for step in steps if not step.refused])
        self._build(checkpointing=True)
        self._measure(MeasuredStep(EVERY_BLOCK))

    def _build(self, *, checkpointing: bool) -> None:
        from gpu_runtime.training.model_program import RandomBatches
        from instances.extract.models import find_model
        from instances.extract.models.building import build_module

        self._module = None
        model = find_model(self._model.name)
        settings = model.settings(**self._settings, checkpointing=checkpointing)
        self._torch.manual_seed(0)
        module, batch = build_module(model, settings, is_computed=True)
        self._module = module.to(self._device)
        self._batch = RandomBatches(self._module, batch, 0, self._device).next()

    def _loss(self) -> Any:
        return self._module(**self._batch).loss

    def _within(self, step: MeasuredStep) -> Callable[[], Any]:
        from gpu_runtime.repeating import Decision, RepeatedRuns

        decision = Decision(**step.decision)

        def loss() -> Any:
            with RepeatedRuns(decision, strict=True):
                return self._loss()

        return loss

    def _decide(self) -> list[MeasuredStep]:
        """Ask for a decision at each limit."""
        from evaluation.measuring.kernel_times import kernel_seconds
        from gpu_runtime.repeating import KeptWithin, problem_of, record_step
        from planners.recompute import RepeatableStep, device_rates

        recorded = RepeatableStep(problem_of(record_step(self._loss)), device_rates("h100"))
        live = recorded.live_bytes
        whole, gradients = int(live.max()), int(live[-1])
        self._run.steps[0].predicted_bytes = whole
        profiles = [kernel_seconds(self._loss, self._device) for _ in range(3)]
        times = [sorted(each)[1] for each in zip(*profiles, strict=True)]
        steps = []
        for share in SHARES:
            limit = gradients + int(share * (whole - gradients))
            step = MeasuredStep(f"within {share:.0%}", limit)
            steps.append(step)
            kept = KeptWithin(self._loss, limit, time_limit=self._planner_seconds, strict=True)
            try:
                decision = kept.decision()
            except GaplessError as error:
                step.refused = str(error)
                continue
            step.decision = asdict(decision)
            step.predicted_bytes, step.predicted_seconds = decision.peak, decision.extra_seconds
            step.profiled_seconds = sum(
                seconds for seconds, unit in zip(times, decision.unit, strict=True) if unit >= 0
            )
        return steps

    def _measure(self, step: MeasuredStep) -> None:
        self._run.steps.append(step)
        if step.refused:
            return
        loss_of = self._within(step) if step.decision else self._loss
        memory = self._memory

        def once() -> None:
            with nullcontext() if memory is None else memory.step(step.way):
                loss_of().backward()
                self._module.zero_grad(set_to_none=True)

        for _ in range(WARM_UPS if memory is None else PLANNED_WARM_UPS):
            once()
        if memory is None:
            step.reserved_bytes = self._meter.reserved_bytes(once)
        else:
            memory.reset_peaks()
        step.peak_bytes = self._meter.peak_bytes(once)
        step.seconds = self._meter.seconds(once, self._repetitions)
        if memory is not None:
            report = memory.report()
            step.reserved_bytes = report.reserved_bytes
            step.is_planned = report.planned_steps == report.steps
        digest = self._digest_of(loss_of)
        self._run.digest = self._run.digest or digest
        step.same_bits = digest == self._run.digest

    def _digest_of(self, loss_of: Callable[[], Any]) -> str:
        from gpu_runtime.training.determinism import digests

        self._torch.manual_seed(1)
        loss = loss_of()
        loss.backward()
        named = self._module.named_parameters()
        gradients = {name: each.grad for name, each in named if each.grad is not None}
        found = digests([("loss", loss), *gradients.items()])
        self._module.zero_grad(set_to_none=True)
        return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()

    def _try_allowed(self, steps: Sequence[MeasuredStep]) -> None:
        """Allow the process too few bytes for the step as it is, and try both."""
        if not steps:
            return
        needed = (steps[-1].predicted_bytes + self._run.steps[0].predicted_bytes) // 2
        self._run.allowed_bytes = self._torch.cuda.memory_allocated() + needed
        with self._allowed(self._run.allowed_bytes):
            self._run.within_allowed = {
                AS_IT_IS: self._ending(self._loss),
                steps[-1].way: self._ending(self._within(steps[-1])),
            }

    @contextmanager
    def _allowed(self, count: int) -> Iterator[None]:
        cuda = self._torch.cuda
        cuda.empty_cache()
        cuda.set_per_process_memory_fraction(count / cuda.get_device_properties(0).total_memory)
        try:
            yield
        finally:
            cuda.set_per_process_memory_fraction(1.0)

    def _ending(self, loss_of: Callable[[], Any]) -> str:
        try:
            loss_of().backward()
            self._meter.wait()
        except self._torch.cuda.OutOfMemoryError:
            return "out of memory"
        finally:
            self._module.zero_grad(set_to_none=True)
            self._torch.cuda.empty_cache()
        return "ran"
