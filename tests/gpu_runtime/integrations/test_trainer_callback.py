"""Where the Trainer of transformers begins and ends its steps, whatever becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_runtime import PlannedMemory
from planners.errors import DeviceError

if TYPE_CHECKING:
    from tests.gpu_runtime.integrations.recorded_memory import RecordedMemory

pytestmark = pytest.mark.torch


def trainer_of(
    memory: RecordedMemory,
    folder: Path,
    *,
    raises: dict[int, BaseException] | None = None,
    samples: int = 6,
    callbacks: list[Any] | None = None,
    **settings: Any,
) -> Any:
    """Return a Trainer of a tiny model; ``raises`` says in which of its batches it does."""
    import torch
    import transformers

    from gpu_runtime.integrations import PlannedTrainerCallback
    from tests.gpu_runtime.integrations.recorded_memory import RecordedOptimizer

    class Recorded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.batches = 0

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            memory.note("F" if self.training else "E")
            self.batches += 1
            if self.batches in (raises or {}):
                raise (raises or {})[self.batches]
            return {"loss": (self.layer(x) - labels).square().mean()}

    torch.manual_seed(0)
    model = Recorded()
    dataset = [{"x": torch.randn(4), "labels": torch.zeros(1)} for _ in range(samples)]
    usual = {
        "output_dir": str(folder), "use_cpu": True, "report_to": [], "disable_tqdm": True,
        "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2, "num_train_epochs": 1,
        "save_strategy": "no", "per_device_eval_batch_size": 1,
    }  # fmt: skip
    return transformers.Trainer(
        model,
        transformers.TrainingArguments(**{**usual, **settings}),
        train_dataset=dataset,
        eval_dataset=dataset[:2],
        optimizers=(RecordedOptimizer(model, memory), None),
        callbacks=[PlannedTrainerCallback(memory)] if callbacks is None else callbacks,
    )


def failed_trainer(memory: RecordedMemory, folder: Path) -> Any:
    """Return a Trainer whose training ended with an error in its first step."""
    trainer = trainer_of(memory, folder, raises={1: RuntimeError()})
    with pytest.raises(RuntimeError):
        trainer.train()
    return trainer


@pytest.mark.parametrize(("samples", "epoch"), [(6, "(FFO)" * 3), (5, "(FFO)(FFO)(FO)")])
def test_a_step_is_all_that_one_step_of_the_optimizer_needs(
    memory: RecordedMemory, tmp_path: Path, samples: int, epoch: str
) -> None:
    trainer_of(memory, tmp_path, samples=samples, num_train_epochs=2).train()
    assert memory.events == 2 * epoch
    assert memory.report().steps == 6


def test_evaluating_and_saving_are_between_steps(memory: RecordedMemory, tmp_path: Path) -> None:
    import transformers

    from gpu_runtime.integrations import PlannedTrainerCallback

    class Saves(transformers.TrainerCallback):
        def on_save(self, *_: Any, **__: Any) -> None:
            memory.note("S")

    often = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 2}
    # Before it and behind it: other callbacks do not change what is a step.
    callbacks = [Saves(), PlannedTrainerCallback(memory), Saves()]
    trainer_of(memory, tmp_path, callbacks=callbacks, eval_on_start=True, **often).train()
    assert memory.events == "EE(FFO)EE(FFO)EESS(FFO)EESS"


def test_a_checkpoint_is_resumed(memory: RecordedMemory, tmp_path: Path) -> None:
    import torch

    saves = {"save_strategy": "steps", "save_steps": 2}
    whole = trainer_of(memory, tmp_path, **saves)
    whole.train()
    memory.events = ""
    resumed = trainer_of(memory, tmp_path, **saves)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert memory.events == "(FFO)"
    assert torch.equal(resumed.model.layer.weight, whole.model.layer.weight)


@pytest.mark.parametrize("error", [RuntimeError("of the user"), KeyboardInterrupt()])
def test_an_error_in_a_step_and_training_again(
    memory: RecordedMemory, tmp_path: Path, error: BaseException
) -> None:
    trainer = trainer_of(memory, tmp_path, raises={4: error})
    with pytest.raises(type(error)):
        trainer.train()
    assert memory.events == "(FFO)(FF"
    trainer.train()
    assert memory.events == "(FFO)(FF!" + "(FFO)" * 3


def test_work_before_the_first_step_of_a_training_is_in_no_step(
    memory: RecordedMemory, tmp_path: Path
) -> None:
    import transformers

    class Begins(transformers.TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            memory.note("B")

    trainer = failed_trainer(memory, tmp_path)
    trainer.add_callback(Begins())
    trainer.train()
    assert memory.events == "(F!B" + "(FFO)" * 3


def test_an_error_in_a_step_and_evaluating(memory: RecordedMemory, tmp_path: Path) -> None:
    failed_trainer(memory, tmp_path).evaluate()
    assert memory.events == "(FE!E"


def test_an_error_in_a_step_and_a_loop_of_the_user(memory: RecordedMemory, tmp_path: Path) -> None:
    trainer = failed_trainer(memory, tmp_path)
    (callback,) = (one for one in trainer.callback_handler.callbacks if hasattr(one, "memory"))
    with pytest.raises(DeviceError, match="a step begins within a step"), callback.memory.step():
        pytest.fail("the step has begun")
    callback.abandon_step()
    callback.abandon_step()
    with callback.memory.step():
        memory.note("F")
    trainer.train()
    assert memory.events == "(F!(F)" + "(FFO)" * 3


def test_memory_is_short_and_the_trainer_tries_smaller_batches(
    memory: RecordedMemory, tmp_path: Path
) -> None:
    import torch

    short = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
    settings = {"auto_find_batch_size": True, "gradient_accumulation_steps": 1}
    trainer_of(
        memory, tmp_path, raises={1: short}, per_device_train_batch_size=6, **settings
    ).train()
    assert memory.events.startswith("(F!(FO)")
    assert memory.events.count("(FO)") == memory.report().steps - 1


def test_training_stops_between_accumulated_batches(memory: RecordedMemory, tmp_path: Path) -> None:
    import transformers

    from gpu_runtime.integrations import PlannedTrainerCallback

    class Stops(transformers.TrainerCallback):
        def on_substep_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = True

    callbacks = [Stops(), PlannedTrainerCallback(memory)]
    trainer_of(memory, tmp_path, callbacks=callbacks).train()
    assert memory.events == "(F!"


def test_it_is_added_to_a_trainer_that_has_been_made(
    memory: RecordedMemory, tmp_path: Path
) -> None:
    from gpu_runtime.integrations import PlannedTrainerCallback

    trainer = trainer_of(memory, tmp_path, callbacks=[])
    trainer.add_callback(PlannedTrainerCallback(memory))
    trainer.train()
    assert memory.events == "(FFO)" * 3


def test_a_step_of_the_user_within_a_step_of_the_trainer(
    memory: RecordedMemory, tmp_path: Path
) -> None:
    trainer = trainer_of(memory, tmp_path)
    trainer.training_step = lambda *_: memory.begin_step()
    with pytest.raises(DeviceError, match="a step begins within a step"):
        trainer.train()


def test_a_trainer_without_a_cuda_device(memory: RecordedMemory, tmp_path: Path) -> None:
    from gpu_runtime.integrations import PlannedTrainerCallback

    rule = r"^planned memory needs a CUDA device, found training on cpu$"
    for callback in (
        PlannedTrainerCallback,
        PlannedTrainerCallback(),
        PlannedTrainerCallback(PlannedMemory("naive")),
    ):
        with pytest.raises(DeviceError, match=rule):
            trainer_of(memory, tmp_path, callbacks=[callback])
    late = trainer_of(memory, tmp_path, callbacks=[])
    late.add_callback(PlannedTrainerCallback())
    with pytest.raises(DeviceError, match=rule):
        late.train()
