"""One run of a program in this process."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn

from gpu_runtime.training.allocator_probe import AllocatorProbe
from gpu_runtime.training.determinism import deterministic, digests
from gpu_runtime.training.run_result import RunResult
from gpu_runtime.training.scene import Scene
from gpu_runtime.training.training_run import TrainingRun
from planners.errors import GaplessError

DRIVER_VERSION = Path("/proc/driver/nvidia/version")


def run_program(
    run: TrainingRun, probe: AllocatorProbe, wait_for_turn: Callable[[], None] = lambda: None
) -> RunResult:
    """Run a program to its end, turn by turn.

    A check uses deterministic algorithms. If an operator has none, a strict check raises
    UndeterminedError; any other check uses plain attention and notes the operator.
    """
    module, _, function = run.entry.partition(":")
    train: Callable[[Scene], nn.Module] = getattr(import_module(module), function)
    scene = Scene(run, probe, wait_for_turn)
    with deterministic(strict=run.strict) if scene.is_check else nullcontext() as undetermined:
        model = train(scene)
        if scene.taken != run.steps:
            raise GaplessError(
                f"program {run.program}: {run.steps} steps are needed, found {scene.taken}"
            )
        return RunResult(
            step_seconds=scene.step_seconds,
            peaks=scene.peaks,
            whole_run_reserved=scene.whole_run_reserved,
            device_bytes=scene.device_bytes,
            counts=scene.counts,
            allocator_seconds=tuple(time.seconds for time in probe.step_times),
            allocator_events=tuple(time.events for time in probe.step_times),
            plan=probe.plan() if scene.is_check else scene.plan,
            note=probe.note(),
            losses=tuple(map(tuple, scene.losses)) if scene.is_check else (),
            gradients=tuple(scene.gradients),
            parameters=digests(_local(model.named_parameters())) if scene.is_check else {},
            buffers=digests(_local(model.named_buffers())) if scene.is_check else {},
            undetermined=tuple(undetermined()) if undetermined else (),
            streams=scene.streams,
            environment=run_environment(run.device),
        )


def _local(named: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yield tensors; of a sharded tensor the part of this process."""
    return ((name, its.to_local() if hasattr(its, "to_local") else its) for name, its in named)


def run_environment(device: str) -> dict[str, str]:
    """Return names and versions of the software and the device."""
    described = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
    }
    if device == "cuda":
        described |= {"device": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
        if DRIVER_VERSION.exists():
            found = re.search(r"(\d+\.\d+(?:\.\d+)?)", DRIVER_VERSION.read_text())
            described["driver"] = found[1] if found else "unknown"
    return described
