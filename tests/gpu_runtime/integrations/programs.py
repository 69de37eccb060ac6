"""Programs as people write them, each for a process of its own: an allocator is installed once.

``python -m tests.gpu_runtime.integrations.programs NAME native|planned cuda|cpu`` prints one line
of JSON, the last. On a CPU an allocator over simulated memory is asked for the storages of tensors.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from gpu_runtime import PlannedMemory
from gpu_runtime._core import LedgerMemory, PlannedAllocator
from gpu_runtime.integrations import callback_step
from tests.gpu_runtime.allocator.gpu_programs import digest, model_of
from tests.gpu_runtime.online.allocating_mode import AllocatingMode

STEPS = 10
# Steps so short would be over before a plan that is made beside them.
Planned = partial(PlannedMemory, time_limit=5.0, _planning="between")


class Run:
    """One run of a program: where, under which allocator, and what it came to."""

    def __init__(self, allocator: str, device: str, folder: str) -> None:
        self.device = torch.device(device)
        self.folder = folder  # for checkpoints
        self.planned = allocator == "planned"
        self.memory: PlannedMemory | None = None
        self.simulation = ExitStack()
        self.losses: list[str] = []
        self.parameters = ""
        self.also: dict[str, Any] = {}
        self.rows = 32 if self.device.type == "cuda" else 2
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(0)

    def install(self) -> None:
        """Do what a user does before all else."""
        if not self.planned:
            return
        self.memory = Planned(device=self.device.index or 0)
        if self.device.type == "cuda":
            self.memory.install()
            return
        allocator = PlannedAllocator(LedgerMemory(2 << 20, 1 << 40))
        self.memory.attach(allocator)
        self.simulation.enter_context(AllocatingMode(allocator, 64))

    def step(self) -> AbstractContextManager[None]:
        return nullcontext() if self.memory is None else self.memory.step()

    def batch(self, number: int) -> Tensor:
        drawn = torch.randn(self.rows, 64, 256, generator=torch.Generator().manual_seed(number))
        return drawn.to(self.device)

    def model(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = model_of("transformer").to(self.device)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3)

    def note(self, loss: Tensor) -> None:
        self.losses.append(loss.item().hex())

    def finish(self, model: nn.Module) -> None:
        self.parameters = digest(model.parameters())

    def to_json(self) -> dict[str, Any]:
        return {
            "losses": self.losses,
            "parameters": self.parameters,
            "report": self.memory.report().to_json() if self.memory else None,
            **self.also,
        }


def error_of(model: nn.Module, batch: Tensor) -> Tensor:
    return functional.mse_loss(model(batch), batch)


def train_once(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> None:
    optimizer.zero_grad()
    loss = error_of(model, batch)
    loss.backward()
    optimizer.step()
    run.note(loss)


def train(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, numbers: range) -> None:
    """Train the plainest of loops."""
    for number in numbers:
        with run.step():
            train_once(run, model, optimizer, run.batch(number))


def inline_loop(run: Run) -> None:
    """Output and loss stay until the next step has made its own, as without a function."""
    run.install()
    model, optimizer = run.model()
    for number in range(STEPS):
        batch = run.batch(number)
        with run.step():
            optimizer.zero_grad()
            out = model(batch)
            loss = functional.mse_loss(out, batch)
            loss.backward()
            optimizer.step()
            run.note(loss)
    run.finish(model)


def checkpoint_and_resume(run: Run) -> None:
    """The training that goes on has a model and an optimizer of its own."""
    run.install()
    model, optimizer = run.model()
    train(run, model, optimizer, range(STEPS))
    with tempfile.TemporaryFile() as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        found = torch.load(file, map_location=run.device, weights_only=True)
    model, optimizer = run.model()
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    del found
    train(run, model, optimizer, range(STEPS, 2 * STEPS))
    run.finish(model)


class Drawn(Dataset[Tensor]):
    """Samples that a worker draws."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> Tensor:
        if index >= self._samples:
            raise IndexError(index)
        return torch.randn(64, 256, generator=torch.Generator().manual_seed(index))


def threads(run: Run) -> None:
    """While one thread trains, others infer with models of their own and keep tensors."""
    run.install()
    model, optimizer = run.model()
    done = threading.Event()
    wrong: list[str] = []
    rounds = [0, 0]

    # It has no dropout: what is drawn would hang on the order of threads.
    own, batch = model_of("mlp").to(run.device), run.batch(0)

    def infer() -> None:
        with torch.inference_mode():
            expected = own(batch)
            while not done.is_set() or rounds[0] < 10:
                if not torch.equal(own(batch), expected):
                    wrong.append("inference")
                rounds[0] += 1

    def keep() -> None:
        kept: list[Tensor] = []
        while not done.is_set() or rounds[1] < 10:
            number = rounds[1]
            kept.append(torch.full((1 + 9973 * number % 400_000,), number, device=run.device))
            if len(kept) > 8:
                oldest = kept.pop(0)
                if not bool((oldest == number - 8).all()):
                    wrong.append("kept")
            rounds[1] += 1

    others = [threading.Thread(target=target) for target in (infer, keep)]
    for other in others:
        other.start()
    try:
        train(run, model, optimizer, range(STEPS))
    finally:
        done.set()
        for other in others:
            other.join()
    run.finish(model)
    run.also = {"wrong": wrong}


def interrupted_cell(run: Run) -> None:
    """Ctrl-C in the middle of a step; the notebook keeps the traceback, and with it tensors."""
    run.install()
    model, optimizer = run.model()
    train(run, model, optimizer, range(STEPS))
    try:
        with run.step():
            held = error_of(model, run.batch(STEPS))
            signal.raise_signal(signal.SIGINT)
            run.note(held)
    except KeyboardInterrupt as error:
        last = error  # as `sys.last_value`
    optimizer.zero_grad()
    train(run, model, optimizer, range(STEPS, STEPS + 3))
    del last, held
    train(run, model, optimizer, range(STEPS + 3, 2 * STEPS))
    run.finish(model)


class WithLoss(nn.Module):
    """A model as the Trainer of transformers wants it; ``interrupted_at`` is one of its batches."""

    def __init__(self, interrupted_at: int = 0) -> None:
        super().__init__()
        self.model = model_of("transformer")
        self.interrupted_at = interrupted_at
        self.batches = 0

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        self.batches += 1
        loss = functional.mse_loss(self.model(x), labels)
        if self.batches == self.interrupted_at:
            signal.raise_signal(signal.SIGINT)
        return {"loss": loss}


class Named(Drawn):
    """Samples as the Trainer of transformers wants them."""

    def __getitem__(self, index: int) -> Any:
        x = super().__getitem__(index)
        return {"x": x, "labels": x}


def trainer_of(run: Run, model: nn.Module, **settings: Any) -> Any:
    """Return a Trainer that evaluates and accumulates."""
    import transformers

    from gpu_runtime.integrations import PlannedTrainerCallback

    usual = {
        "output_dir": run.folder, "use_cpu": run.device.type == "cpu", "report_to": [],
        "disable_tqdm": True, "per_device_train_batch_size": run.rows, "max_steps": STEPS,
        "per_device_eval_batch_size": run.rows, "gradient_accumulation_steps": 2,
        "eval_strategy": "steps", "eval_steps": 3, "save_strategy": "no", "logging_steps": 1,
        "prediction_loss_only": True,
    }  # fmt: skip
    samples = run.rows * 2
    trainer = transformers.Trainer(
        model,
        transformers.TrainingArguments(**{**usual, **settings}),
        train_dataset=Named(samples * STEPS),
        eval_dataset=Named(samples),
        callbacks=[PlannedTrainerCallback(run.memory)] if run.planned else [],
    )
    if run.planned:
        callbacks = trainer.callback_handler.callbacks
        (ours,) = (one for one in callbacks if isinstance(one, PlannedTrainerCallback))
        run.memory = ours.memory
    return trainer


def note_history(run: Run, trainer: Any) -> None:
    for entry in trainer.state.log_history:
        run.losses += [entry[key].hex() for key in ("loss", "eval_loss") if key in entry]


def trainer(run: Run) -> None:
    """The callback makes its memory itself, after the model has gone to the device."""
    if run.device.type == "cpu":
        run.install()
    # A thread of the Trainer measures without a pause; on a CPU that takes most of the time.
    trainer = trainer_of(run, WithLoss(), skip_memory_metrics=run.device.type == "cpu")
    metrics = trainer.train().metrics
    note_history(run, trainer)
    run.finish(trainer.model)
    run.also = {"metrics": sorted(key for key in metrics if "_mem_gpu_" in key)}


def trainer_resumed(run: Run) -> None:
    run.install()
    saves = {"save_strategy": "steps", "save_steps": STEPS // 2}
    trainer_of(run, WithLoss(), **saves).train()
    resumed = trainer_of(run, WithLoss(), **saves)
    resumed.train(resume_from_checkpoint=f"{run.folder}/checkpoint-{STEPS // 2}")
    note_history(run, resumed)
    run.finish(resumed.model)


def trainer_interrupted(run: Run) -> None:
    run.install()
    trainer = trainer_of(run, WithLoss(interrupted_at=STEPS))
    try:
        trainer.train()
    except KeyboardInterrupt as error:
        run.also = {"interrupted": type(error).__name__}
    trainer.train()
    note_history(run, trainer)
    run.finish(trainer.model)


def lightning(run: Run) -> None:
    """Fit, accumulating and validating, then resume from what was saved."""
    import pytorch_lightning

    from gpu_runtime.integrations import PlannedLightningCallback

    class Module(pytorch_lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model_of("transformer")

        def training_step(self, batch: Tensor) -> Tensor:
            loss = error_of(self.model, batch)
            run.note(loss)
            return loss

        def validation_step(self, batch: Tensor) -> None:
            run.note(error_of(self.model, batch))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    world = int(os.environ.get("WORLD_SIZE", "1"))

    def fit(epochs: int, saved: str | None) -> tuple[Any, Any]:
        callback = PlannedLightningCallback(run.memory) if run.planned else None
        fitting = pytorch_lightning.Trainer(
            accelerator=run.device.type, devices=world, max_epochs=epochs, logger=False,
            accumulate_grad_batches=2, val_check_interval=4, enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False, default_root_dir=run.folder,
            callbacks=[callback] if callback else [],
        )  # fmt: skip
        # Each process gets its share of the batches.
        loader = DataLoader(Drawn(run.rows * STEPS * world), batch_size=run.rows)
        torch.manual_seed(0)
        module = Module()
        fitting.fit(module, loader, DataLoader(Drawn(run.rows), run.rows), ckpt_path=saved)
        if callback:
            run.memory = callback.memory
        return module, fitting

    if run.device.type == "cpu":
        run.install()
    _, fitted = fit(1, None)
    fitted.save_checkpoint(f"{run.folder}/saved.ckpt")
    module, _ = fit(2, f"{run.folder}/saved.ckpt")
    run.finish(module)


PROGRAMS = {
    program.__name__: program
    for program in (
        inline_loop,
        checkpoint_and_resume,
        threads,
        interrupted_cell,
        trainer,
        trainer_resumed,
        trainer_interrupted,
        lightning,
    )
}


def main(name: str, allocator: str, device: str) -> dict[str, Any]:
    # A shell has its jobs in the background ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(allocator, device, folder)
        with run.simulation:
            PROGRAMS[name](run)
        return run.to_json()


if __name__ == "__main__":
    # What deterministic algorithms ask of cuBLAS.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    vars(callback_step)["PlannedMemory"] = Planned
    print(json.dumps(main(*sys.argv[1:])))
