"""Where the Trainer of Lightning begins and ends its steps, whatever becomes of them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from gpu_runtime import PlannedMemory
from planners.errors import DeviceError

if TYPE_CHECKING:
    from tests.gpu_runtime.integrations.recorded_memory import RecordedMemory

pytestmark = [
    pytest.mark.torch,
    # Its own, about loaders that these tests do not need.
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """Lightning no longer listens to it once it was pressed."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


class Batches:
    """A loader of batches that are there; Lightning takes a list for one of loaders."""

    def __init__(self, *batches: Any) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


class Fitting:
    """A tiny module, and what fits it; ``raises`` says in which of its batches it does."""

    def __init__(
        self,
        memory: RecordedMemory,
        folder: Path,
        raises: dict[int, BaseException] | None = None,
        **settings: Any,
    ) -> None:
        import pytorch_lightning
        import torch

        from gpu_runtime.integrations import PlannedLightningCallback
        from tests.gpu_runtime.integrations.recorded_memory import RecordedOptimizer

        class Recorded(pytorch_lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)
                self.batches = 0

            def training_step(self, batch: torch.Tensor) -> torch.Tensor:
                memory.note("F")
                self.batches += 1
                if self.batches in (raises or {}):
                    raise (raises or {})[self.batches]
                return self.layer(batch).square().mean()

            def validation_step(self, _batch: torch.Tensor) -> None:
                memory.note("E")

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return RecordedOptimizer(self, memory)

        torch.manual_seed(0)
        self.module = Recorded()
        self.data = Batches(*torch.randn(4, 1, 4))
        self.validation: Batches | None = None
        usual = {
            "accelerator": "cpu", "devices": 1, "max_epochs": 1, "logger": False,
            "enable_progress_bar": False, "enable_model_summary": False,
            "enable_checkpointing": False, "default_root_dir": str(folder),
            "num_sanity_val_steps": 0, "callbacks": [PlannedLightningCallback(memory)],
        }  # fmt: skip
        self.trainer = pytorch_lightning.Trainer(**{**usual, **settings})

    def fit(self, checkpoint: str | None = None) -> None:
        self.trainer.fit(self.module, self.data, self.validation, ckpt_path=checkpoint)


@pytest.mark.parametrize(("accumulated", "epoch"), [(1, "(FO)" * 4), (3, "(F)(F)(FO)(FO)")])
def test_a_batch_is_a_step_also_without_the_optimizer(
    memory: RecordedMemory, tmp_path: Path, accumulated: int, epoch: str
) -> None:
    Fitting(memory, tmp_path, max_epochs=2, accumulate_grad_batches=accumulated).fit()
    assert memory.events == 2 * epoch
    assert memory.report().steps == 8


def test_validation_is_between_steps(memory: RecordedMemory, tmp_path: Path) -> None:
    fitting = Fitting(memory, tmp_path, num_sanity_val_steps=1, val_check_interval=2)
    fitting.validation = Batches(*list(fitting.data)[:2])
    fitting.fit()
    assert memory.events == "E" + "(FO)(FO)EE" * 2
    fitting.trainer.validate(fitting.module, fitting.validation, verbose=False)
    assert memory.events.endswith("EEEE")


def test_a_checkpoint_is_resumed(memory: RecordedMemory, tmp_path: Path) -> None:
    import torch

    whole = Fitting(memory, tmp_path, max_epochs=2)
    whole.fit()
    first = Fitting(memory, tmp_path)
    first.fit()
    first.trainer.save_checkpoint(tmp_path / "checkpoint.ckpt")
    memory.events = ""
    resumed = Fitting(memory, tmp_path, max_epochs=2)
    resumed.fit(str(tmp_path / "checkpoint.ckpt"))
    assert memory.events == "(FO)" * 4
    assert torch.equal(resumed.module.layer.weight, whole.module.layer.weight)


def test_an_error_in_a_step_and_fitting_again(memory: RecordedMemory, tmp_path: Path) -> None:
    fitting = Fitting(memory, tmp_path, raises={2: RuntimeError("of the user")})
    with pytest.raises(RuntimeError, match="of the user"):
        fitting.fit()
    assert memory.events == "(FO)(F!"
    with memory.step():
        memory.note("F")
    fitting.fit()
    assert memory.events.startswith("(FO)(F!(F)(FO)")
    assert memory.events.endswith("(FO)")


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_in_a_step_and_fitting_again(memory: RecordedMemory, tmp_path: Path) -> None:
    fitting = Fitting(memory, tmp_path, raises={2: KeyboardInterrupt()})
    with pytest.raises(SystemExit):
        fitting.fit()
    assert memory.events == "(FO)(F!"
    again = Fitting(memory, tmp_path)
    again.fit()
    assert memory.events == "(FO)(F!" + "(FO)" * 4


def test_a_module_skips_the_rest_of_an_epoch(memory: RecordedMemory, tmp_path: Path) -> None:
    fitting = Fitting(memory, tmp_path)
    fitting.module.on_train_batch_start = lambda _batch, index: -1 if index == 2 else None
    fitting.fit()
    assert memory.events == "(FO)(FO)(!"


def test_a_loader_gives_nothing(memory: RecordedMemory, tmp_path: Path) -> None:
    """Lightning tells of the end of a batch that it does not begin."""
    fitting = Fitting(memory, tmp_path)
    one, *_, other = fitting.data
    fitting.data = Batches(one, None, other)
    fitting.fit()
    assert memory.events == "(FO)(FO)"


def test_a_trainer_without_a_cuda_device(memory: RecordedMemory, tmp_path: Path) -> None:
    from gpu_runtime.integrations import PlannedLightningCallback

    for callback in (
        PlannedLightningCallback(),
        PlannedLightningCallback(PlannedMemory("naive")),
    ):
        with pytest.raises(DeviceError, match=r"found training on cpu$"):
            Fitting(memory, tmp_path, callbacks=[callback]).fit()


def test_the_lightning_that_the_program_has_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its two packages have classes of their own; a callback of the other one is none."""
    from gpu_runtime.integrations.lightning_callback import lightning_of_the_program

    one, other = ModuleType("lightning.pytorch"), ModuleType("pytorch_lightning")
    monkeypatch.setitem(sys.modules, "lightning.pytorch", one)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", other)
    assert lightning_of_the_program() is one
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    assert lightning_of_the_program() is other
