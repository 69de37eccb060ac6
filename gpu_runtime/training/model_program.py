"""A program made of a registered model: its own loop on random batches."""

from __future__ import annotations

from pathlib import Path

from torch.nn import Module

from gpu_runtime.training.random_batches import RandomBatches
from gpu_runtime.training.scene import Scene
from instances.extract.eager.training_loop import TrainingLoop
from instances.extract.models import find_model
from instances.extract.models.own_models import register_own_models
from instances.extract.tracing.building import build_module
from instances.traces.allocation_trace import Phase
from planners.errors import GaplessError

# Drawing a batch of images takes longer than the step of a small network.
DRAWN_MICROBATCHES = 4


def train(scene: Scene) -> Module:
    """Train the model of a run; the same numbers for the same run."""
    run = scene.run
    if run.model is None:
        raise GaplessError(f"program {run.program}: a registered model is needed, found none")
    register_own_models(map(Path, run.model.files))
    model = find_model(run.model.name)
    settings = run.model.settings
    shape = model.settings(**run.model.shape, precision=settings.weights_precision)
    module, batch = build_module(model, shape, is_computed=True)
    module = module.to(scene.device)
    batches = RandomBatches(module, batch, run.seed, run.device)

    def begin(phase: Phase) -> None:
        if phase is Phase.OPTIMIZER:
            scene.note_gradients(module)

    loop = TrainingLoop(
        module,
        batches.next if scene.is_check else batches.repeated(DRAWN_MICROBATCHES),
        settings,
        run.device,
        begin,
        saw_loss=scene.note,
    )
    optimizer = loop.make_optimizer()
    for _ in scene.rounds:
        with scene.step():
            loop.run_iteration(optimizer)
    return module
