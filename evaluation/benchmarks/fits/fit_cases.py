"""The trainings of which memory is predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpu_runtime.training.training_run import Purpose, RegisteredModel, TrainingRun, model_run
from instances.extract.eager.trace_settings import TraceSettings
from planners.errors import GaplessError, near_names

# Steps of a run: a plan is in force from the fourth on, and whether it stays as it is, is seen.
WARM_UP = 6
STEPS = 4


def _case(model: str, settings: TraceSettings, **shape: int | bool) -> TrainingRun:
    run = model_run(Purpose.TIME, RegisteredModel(model, shape, settings))
    return replace(run, warm_up=WARM_UP, turn_steps=STEPS)


CASES = (
    _case("bert-base", TraceSettings(), batch=32, seq=512),
    _case("bert-nezha", TraceSettings(), batch=16),
    _case("tiny-bert", TraceSettings(), batch=64),
    _case("gpt2-medium", TraceSettings(microbatches=4), batch=8, seq=1024, checkpointing=True),
    _case("llama-1b", TraceSettings(), batch=2),
    _case("transformer", TraceSettings(), batch=32),
    _case("vit-base", TraceSettings(), batch=64),
    _case("resnet-50", TraceSettings(), batch=128),
    _case("mobilenet-v2", TraceSettings(optimizer="sgd"), batch=128),
    _case("yolov3", TraceSettings(), batch=8),
)


def find_cases(names: Sequence[str]) -> list[TrainingRun]:
    """Return the trainings of these models, in the order of the list; all where none is named."""
    known = [case.program for case in CASES]
    for name in names:
        if name not in known:
            raise GaplessError(f"--only: no case is called {name!r}; {near_names(name, known)}")
    return [case for case in CASES if not names or case.program in names]
